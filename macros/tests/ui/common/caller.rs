// Code that calls the region, which takes `x` alone.
#[allow(dead_code)]
fn call(r: &mut Runner<R<Nothing>>, x: &Tensor<Nothing, f32, 2>) -> Result<[usize; 2]> {
    let out = r.run(RArgs { x }, &[3])?.into_out();
    Ok(out.y.dims())
}
