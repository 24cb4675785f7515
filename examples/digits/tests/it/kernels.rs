//! A plain loop over the kernels, without the framework, gives the reference.

use digits_plugin::{
    DigitsConfig, Stored, Weights,
    kernels::{add, attend, linear, mean, rms_norm, silu},
};

use crate::reference::{assert_reference, folder, tokens};

#[test]
fn all_images_at_once() {
    let c = DigitsConfig::from_dir(&folder()).expect("a configuration");
    let w = Weights::from_dir(&folder(), &c).expect("weights");
    let product = |x: &[f32], weight: &Stored, inner: usize| {
        let weight = weight.widened();
        let mut y = vec![0.0; x.len() / inner * (weight.len() / inner)];
        linear(x, &weight, inner, &mut y);
        y
    };
    let sum = |a: &[f32], b: &[f32]| {
        let mut y = vec![0.0; a.len()];
        add(a, b, &mut y);
        y
    };
    let normed = |x: &[f32], weight: &[f32]| {
        let mut y = vec![0.0; x.len()];
        rms_norm(x, weight, c.rms_norm_eps, &mut y);
        y
    };
    let mut h = sum(&sum(&product(&tokens(), &w.patch_embed, 4), &w.patch_bias), &w.pos_embed);
    for block in &w.blocks {
        let x = normed(&h, &block.norm1);
        let of = |weight: &Stored| product(&x, weight, c.hidden);
        let mut attention = vec![0.0; h.len()];
        attend(&of(&block.q), &of(&block.k), &of(&block.v), c.heads, c.hidden, &mut attention);
        h = sum(&h, &product(&attention, &block.o, c.hidden));
        let up = product(&normed(&h, &block.norm2), &block.up, c.hidden);
        let mut act = vec![0.0; up.len()];
        silu(&up, &mut act);
        h = sum(&h, &product(&act, &block.down, c.intermediate));
    }
    let mut pooled = vec![0.0; h.len() / 16];
    mean(&normed(&h, &w.norm), c.hidden, &mut pooled);
    assert_reference(&sum(&product(&pooled, &w.head, c.hidden), &w.head_bias));
}
