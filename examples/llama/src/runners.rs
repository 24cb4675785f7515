//! The runners of the regions, with one element of activations.

use graph_core::{BindCx, Result, Runner};
use model_support::Activation;

use crate::{BlockLoop, Embed, LlamaOps, Mlp, Prefill, Qkv};

/// Those that a way of prefill takes.
pub(crate) struct Runners<B: LlamaOps, A: Activation> {
    pub(crate) embed: Runner<Embed<B, A>>,
    pub(crate) layers: Layers<B, A>,
}

/// The runners of all layers.
pub(crate) enum Layers<B: LlamaOps, A: Activation> {
    Piecewise(Vec<Layer<B, A>>),
    BlockLoop(Box<Runner<BlockLoop<B, A>>>),
}

/// Of one layer, before and after its attention.
pub(crate) struct Layer<B: LlamaOps, A: Activation> {
    pub(crate) qkv: Runner<Qkv<B, A>>,
    pub(crate) mlp: Runner<Mlp<B, A>>,
}

impl<B: LlamaOps, A: Activation> Runners<B, A> {
    pub(crate) fn take(prefill: Prefill, cx: &mut BindCx<'_, B>) -> Result<Self> {
        let embed = cx.runners.take_one()?;
        let layers = match prefill {
            Prefill::Piecewise => {
                let (qkv, mlp) = (cx.runners.take()?, cx.runners.take()?);
                let layers = qkv.into_iter().zip(mlp).map(|(qkv, mlp)| Layer { qkv, mlp });
                Layers::Piecewise(layers.collect())
            }
            Prefill::BlockLoop => Layers::BlockLoop(Box::new(cx.runners.take_one()?)),
        };
        Ok(Runners { embed, layers })
    }

    pub(crate) fn set_slot(&mut self, slot: usize) {
        self.embed.set_slot(slot);
        match &mut self.layers {
            Layers::BlockLoop(layers) => layers.set_slot(slot),
            Layers::Piecewise(layers) => layers.iter_mut().for_each(|layer| {
                layer.qkv.set_slot(slot);
                layer.mlp.set_slot(slot);
            }),
        }
    }

    pub(crate) fn set_eager(&mut self, eager_only: bool) {
        self.embed.set_eager(eager_only);
        match &mut self.layers {
            Layers::BlockLoop(layers) => layers.set_eager(eager_only),
            Layers::Piecewise(layers) => layers.iter_mut().for_each(|layer| {
                layer.qkv.set_eager(eager_only);
                layer.mlp.set_eager(eager_only);
            }),
        }
    }
}
