//! `#[derive(PiecewiseRegion)]` for graph-core, which re-exports it. The manual is on
//! [the derive's page](macro@PiecewiseRegion).

mod attr;
mod check;
mod expand;
mod fallback;
mod mistakes;
mod names;
mod text;

use syn::{DeriveInput, parse_macro_input};

/// Makes a struct a region: what its `forward` gets, how calls are padded and captured, and that it is registered.
///
/// ```
/// use std::sync::Arc;
///
/// use graph_core::{Backend, Cx, LoadCx, PiecewiseRegion, Region, Result, Submodule};
///
/// // Once per crate, at its root: the backends of all its generic regions.
/// graph_core::backends!(graph_host::Host);
///
/// struct Model;
/// impl<B: Backend> Submodule<B> for Model {
///     fn load(_: &LoadCx<'_, B>) -> Result<Self> {
///         Ok(Model)
///     }
/// }
///
/// #[derive(PiecewiseRegion)]
/// #[region(node = "toy", name = "copy", packed(total_tokens = [16, 64]))]
/// #[input(x: f32 [tokens, self.width], pad = zero)]
/// #[output(y: f32 [tokens, self.width])]
/// struct Copy<B: Backend> {
///     width: usize,
///     backend: std::marker::PhantomData<B>,
/// }
///
/// impl<B: Backend> Region for Copy<B> {
///     type Submodule = Model;
///     fn instances(_: &Arc<Model>) -> Vec<Arc<Self>> {
///         vec![Arc::new(Copy { width: 2, backend: std::marker::PhantomData })]
///     }
///     fn forward(&self, cx: &mut Cx<'_, B>, x: &CopyInputs<'_, B>, y: &CopyOutputs<'_, B>) -> Result<()> {
///         y.y.copy_from(cx.stream(), x.x)
///     }
/// }
///
/// # fn main() -> Result<()> {
/// use graph_core::{Engine, HostTensor, Registry};
/// use graph_host::Host;
///
/// let mut engine = Engine::builder(Host::new()).build(&Registry::collect()?)?;
/// let stream = engine.stream().clone();
/// let mut copy = engine.runners().take_one::<Copy<Host>>()?;
/// let x = HostTensor::new(&[1.0, 2.0, 3.0, 4.0], [2, 2])?;
/// let out = copy.run(CopyArgs { x }, &[2])?.into_out();
/// assert_eq!(out.y.to_vec(&stream)?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
///
/// # What is generated
///
/// For a struct `X`, as visible as `X` itself:
///
/// | item | what it is |
/// |---|---|
/// | `XArgs { .. }` | what a caller passes to `Runner::run`: one field per input, of any type that the input accepts |
/// | `XInputs<'a, B>` | what `forward` reads: an `In` per input |
/// | `XOutputs<'a, B>` | what `forward` writes: an `Out` per output |
/// | `XResults<'r, B>` | what a call returns: an `OutTensor` per output |
/// | `impl RegionSpec for X` | schema, default configuration, static inputs, sizes; `impl Region` is the author's |
/// | a registration | with crate, file and line of the struct, for the backends below |
///
/// # The struct
///
/// It has named fields, or none. Its parameter is its backend: `struct X<B: Ops>`, where `Ops` is the plugin's trait on
/// top of `Backend`; bounds and where-clauses are free. A region for one backend names it instead: `backend = Host`.
///
/// A second parameter may be an element, `struct X<B: Ops, A: Element>`, which inputs and outputs then have:
/// `#[input(x: A [tokens, self.hidden])]`. `elements(A = [f32, bf16])` lists what it stands for, and each element is
/// registered as a region of its own: the first has the name `mlp`, the others have their element behind it,
/// `mlp_bf16`. `Region::instances` returns none for an element that is not wanted. An element that is not listed does
/// not compile where its schema is asked for.
///
/// # `#[region(..)]`
///
/// | key | meaning |
/// |---|---|
/// | `node = "llama"` | the node that it belongs to (required; `a` to `z`, `0` to `9`, `_`, `-`) |
/// | `name = "mlp"` | its name, unique within the node (required) |
/// | `packed(total_tokens = [16, 64])` | requests of different lengths share a token budget; captured at these totals |
/// | `batched(seq_len = 16)` | every request has this length; one of `packed` and `batched` is required |
/// | `batch_sizes = [1, 2, 4]` | the batch sizes to capture (default: the engine's) |
/// | `compile = true` | runs the region's `prepare` hook before the warm-up (default: false) |
/// | `lease_before_step = true` | takes the slot before the outer step is declared (default: false) |
/// | `backend = Host` | the backend of a struct without a type parameter |
/// | `backends(Host, Cuda)` | the backends of a generic struct (default: the crate's `backends!` list) |
/// | `elements(A = [f32, bf16])` | the elements of a type parameter: a region each |
/// | `crate = path` | where graph-core is (default: `::graph_core`) |
///
/// Sizes are expressions of type `usize` and may name `self`. A packed region none of whose dimensions names `bs` is
/// captured once per total. Several `#[region]` attributes add up.
///
/// # `#[input(..)]` and `#[output(..)]`
///
/// `#[input(name: element [dimensions], ..)]`, in the order of `XInputs`. Elements are `f32`, `f16`, `bf16`, `i32`,
/// `i64`, `u32` and `u8`; there are 1 to 4 dimensions. A dimension is any expression of type `usize`: of `self`, of
/// `tokens` and `bs` (the tokens and requests of a call), of constants. One axis may name `tokens` or `bs`: any axis of
/// a `host` input, the first axis of device inputs and outputs. Where none does, the size is the same for every call.
///
/// | key | meaning |
/// |---|---|
/// | `host` | the input is host data: it travels with the slot's other host inputs in one copy. Inputs only |
/// | `pad = zero` | padded rows are zero (the default). Inputs only |
/// | `pad = repeat_last` | padded rows repeat the last real one |
/// | `pad = value(-1)` | every padded element has this value: a literal of the element's kind, or a constant |
/// | `wire = h[self.layer]` | the buffer is a place that regions share by name: this output is another's input |
///
/// # Mistakes
///
/// All mistakes of a derive are reported at once, each at its place. What only the compiler can see, such as a name in
/// a dimension that does not exist, it reports at the author's expression.
#[proc_macro_derive(PiecewiseRegion, attributes(region, input, output))]
pub fn piecewise_region(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    derive(&item).into()
}

fn derive(item: &DeriveInput) -> proc_macro2::TokenStream {
    let mut mistakes = mistakes::Mistakes::default();
    let attrs = attr::Attrs::parse(&item.attrs, &mut mistakes);
    let region = check::check(item, attrs, &mut mistakes);
    match mistakes.into_errors() {
        None => expand::expand(item, &region),
        Some(mistakes) => fallback::fallback(item, &region, &mistakes),
    }
}
