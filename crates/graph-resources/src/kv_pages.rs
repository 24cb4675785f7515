//! Paged keys and values: the device tensors.

use std::sync::Arc;

use graph_core::{Backend, Element, ErrorKind, Resources, Result, Tensor};

use crate::{KvOptions, kv::KV};

/// The device tensors of a [`PagedKv`](crate::PagedKv): forwards ask for them with `cx.resource::<KvPages<B>>()`.
///
/// One K and one V tensor per layer, each `[pages * page_size, kv_dim]`. Row `page * page_size + offset` is a token's:
/// `slot_mapping` has these rows for the tokens of a step, and an attention plan has the pages of whole streams.
///
/// ```
/// use graph_core::{Backend, Resource, Resources};
/// use graph_host::Host;
/// use graph_resources::{KvOptions, KvPages, PagedKv};
///
/// let mut kv = PagedKv::<Host>::new(KvOptions::new(8, 4).layers(2, 64))?; // 8 pages of 4 tokens
/// # let host = Host::new();
/// # let mut resources = Resources::default();
/// # kv.allocate(&host, &host.stream()?, 1)?;
/// # kv.share(&mut resources);
/// let pages = resources.get::<KvPages<Host>>()?; // `cx.resource::<KvPages<B>>()?` in a forward
/// assert_eq!((pages.layers(), pages.keys(1)?.dims()), (2, [8 * 4, 64]));
/// let row = 2 * pages.page_size() + 1; // the second token of page 2
/// assert_eq!(pages.values(0)?.view().rows(row..row + 1)?.dims(), [1, 64]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct KvPages<B: Backend, T = f32> {
    layers: Arc<[Layer<B, T>]>,
    page_size: usize,
}

struct Layer<B: Backend, T> {
    keys: Tensor<B, T, 2>,
    values: Tensor<B, T, 2>,
}

impl<B: Backend, T> Clone for KvPages<B, T> {
    fn clone(&self) -> Self {
        KvPages { layers: self.layers.clone(), page_size: self.page_size }
    }
}

impl<B: Backend, T: Element> KvPages<B, T> {
    /// The keys of a layer.
    ///
    /// # Errors
    /// [`UnknownName`](ErrorKind::UnknownName) for a layer that there is not.
    pub fn keys(&self, layer: usize) -> Result<&Tensor<B, T, 2>> {
        self.layer(layer).map(|l| &l.keys)
    }

    /// The values of a layer.
    ///
    /// # Errors
    /// [`UnknownName`](ErrorKind::UnknownName) for a layer that there is not.
    pub fn values(&self, layer: usize) -> Result<&Tensor<B, T, 2>> {
        self.layer(layer).map(|l| &l.values)
    }

    /// Layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Tokens of a page.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    fn layer(&self, layer: usize) -> Result<&Layer<B, T>> {
        self.layers.get(layer).ok_or_else(|| {
            let (got, known) = (layer.to_string(), format!("0..{}", self.layers.len()));
            ErrorKind::UnknownName { owner: KV.into(), what: "layer", got, known }.into()
        })
    }
}

/// [`KvPages`] without the element, for the resource.
pub(crate) trait Storage<B: Backend>: Send {
    fn share(&self, into: &mut Resources);
    fn bytes(&self) -> usize;
    /// Whether the rows behind the padding page are zero, as far as it looks.
    fn check_zero(&self, stream: &B::Stream, page_size: usize) -> Result<()>;
}

pub(crate) type MakeStorage<B> = fn(&B, &<B as Backend>::Stream, &KvOptions) -> Result<Box<dyn Storage<B>>>;

/// Zeros, on the device.
pub(crate) fn make_storage<B: Backend, T: Element>(
    device: &B,
    stream: &B::Stream,
    options: &KvOptions,
) -> Result<Box<dyn Storage<B>>> {
    let dims = [options.pages * options.page_size, options.kv_dim];
    let layer = |_| {
        let keys = Tensor::<B, T, 2>::zeros(device, stream, dims)?;
        Ok(Layer { keys, values: Tensor::zeros(device, stream, dims)? })
    };
    let layers = (0..options.layers).map(layer).collect::<Result<_>>()?;
    Ok(Box::new(KvPages { layers, page_size: options.page_size }))
}

/// Rows of each tensor that are looked at after the captures: a forward that ignores its `slot_mapping` writes the
/// first ones.
const ROWS_CHECKED: usize = 1 << 16;

impl<B: Backend, T: Element> Storage<B> for KvPages<B, T> {
    fn share(&self, into: &mut Resources) {
        into.insert(self.clone());
    }
    fn bytes(&self) -> usize {
        let tensors = self.layers.iter().flat_map(|l| [&l.keys, &l.values]);
        tensors.map(|t| t.view().len() * size_of::<T>()).sum()
    }
    fn check_zero(&self, stream: &B::Stream, page_size: usize) -> Result<()> {
        for (layer, Layer { keys, values }) in self.layers.iter().enumerate() {
            for (what, tensor) in [("keys", keys), ("values", values)] {
                let [rows, dim] = tensor.dims();
                let view = tensor.view().rows(page_size..rows.min(page_size + ROWS_CHECKED))?;
                let mut bytes = vec![0_u8; view.len() * size_of::<T>()];
                B::download(stream, view.buffer(), view.offset(), &mut bytes)?;
                if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
                    let page = 1 + at / (dim * size_of::<T>()) / page_size;
                    let what = format!("the {what} of page {page}, layer {layer}");
                    return Err(ErrorKind::StateChanged { resource: KV, what }.into());
                }
            }
        }
        Ok(())
    }
}
