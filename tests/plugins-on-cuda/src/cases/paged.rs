//! Attention over pages.

use graph_core::{Tensor, bf16};
use graph_cuda::Cuda;
use llama_plugin::{
    LlamaOps, PagedRows,
    cuda::PAGED,
    kernels::{Cache, Heads, Pages, Queries, attend_decode, attend_packed},
};
use model_support::Activation;

use super::{Case, edit};
use crate::{Edit, Rig, numbers, rounded, same};

const DECODE_EDITS: &[Edit] =
    &[edit("u32 last = min(", "u32 last = 1 + 0 * min("), edit("LANE_DIMS 4", "LANE_DIMS 1")];
const PACKED_EDITS: &[Edit] =
    &[edit("positions[token] + 1", "positions[token] + 0"), edit("score *= scale", "score *= 1.1f * scale")];

pub(super) const CASES: &[Case] = &[
    Case { kernel: "attend_decode_f32", source: &PAGED, check: decode::<f32>, edits: DECODE_EDITS },
    Case { kernel: "attend_decode_bf16", source: &PAGED, check: decode::<bf16>, edits: DECODE_EDITS },
    Case { kernel: "attend_packed_f32", source: &PAGED, check: packed::<f32>, edits: PACKED_EDITS },
    Case { kernel: "attend_packed_bf16", source: &PAGED, check: packed::<bf16>, edits: PACKED_EDITS },
];

const SIZES: [Heads; 2] =
    [Heads { heads: 4, kv_heads: 2, head_dim: 40 }, Heads { heads: 2, kv_heads: 1, head_dim: 128 }];
/// Pages of the cache, one more than a prime.
const PAGES: usize = 128;
/// Contexts of the rows, in tokens; the last row is padding.
const CONTEXTS: [usize; 4] = [71, 1, 33, 0];

/// A step over contexts whose tokens have the same keys at any page size.
struct Step<A> {
    heads: Heads,
    page_size: usize,
    keys: Vec<A>,
    values: Vec<A>,
    page_indptr: Vec<i32>,
    page_indices: Vec<i32>,
    last_page_len: Vec<i32>,
}

impl<A: Activation> Step<A> {
    fn new(heads: Heads, page_size: usize) -> Self {
        let width = heads.kv_heads * heads.head_dim;
        let mut step = Step {
            heads,
            page_size,
            keys: vec![A::narrow(f32::NAN); PAGES * page_size * width],
            values: vec![A::narrow(f32::NAN); PAGES * page_size * width],
            page_indptr: vec![0],
            page_indices: Vec::new(),
            last_page_len: Vec::new(),
        };
        for (row, tokens) in CONTEXTS.into_iter().enumerate() {
            let first = step.page_indices.len();
            // Pages from the back, so that their order is not that of their numbers.
            let page = |i: usize| ((PAGES - 1 - first - i) * 7 % (PAGES - 1) + 1) as i32;
            step.page_indices.extend((0..tokens.div_ceil(page_size)).map(page));
            step.page_indptr.push(step.page_indices.len() as i32);
            step.last_page_len.push(if tokens == 0 { 0 } else { (tokens - 1) % page_size + 1 } as i32);
            let (k, v) = (numbers(tokens * width, 20 + row as u64), numbers(tokens * width, 30 + row as u64));
            for token in 0..tokens {
                let page = step.page_indices[first + token / page_size] as usize;
                let to = (page * page_size + token % page_size) * width;
                step.keys[to..to + width].copy_from_slice(&k[token * width..][..width]);
                step.values[to..to + width].copy_from_slice(&v[token * width..][..width]);
            }
        }
        step.page_indices.resize(PAGES - 1, 0);
        step
    }

    fn cache(&self) -> Cache<'_, A> {
        Cache { keys: &self.keys, values: &self.values }
    }

    fn pages(&self) -> Pages<'_> {
        Pages { indptr: &self.page_indptr, indices: &self.page_indices, page_size: self.page_size }
    }

    /// On the device: the plan, of queries at these places, and a result.
    fn run(&self, rig: &Rig, q: &[A], queries: Option<Queries<'_>>) -> Result<Vec<A>, String> {
        let Heads { heads, kv_heads, head_dim } = self.heads;
        let (width, rows) = (heads * head_dim, PAGES * self.page_size);
        let one = |data: &[i32]| rig.up(data, [data.len()]);
        let cache = |data: &[A]| rig.up(data, [rows, kv_heads * head_dim]);
        let (keys, values) = (cache(&self.keys), cache(&self.values));
        let indptr = one(queries.map_or(&[], |queries| queries.indptr));
        let positions = one(queries.map_or(&[], |queries| queries.positions));
        let (page_indptr, page_indices) = (one(&self.page_indptr), one(&self.page_indices));
        let last_page_len = one(&self.last_page_len);
        let rows = PagedRows {
            indptr: indptr.view(),
            page_indptr: page_indptr.view(),
            page_indices: page_indices.view(),
            last_page_len: last_page_len.view(),
            positions: positions.view(),
            page_size: self.page_size,
        };
        let tokens = q.len() / width;
        let (q, y): (_, Tensor<Cuda, A, 2>) = (rig.up(q, [tokens, width]), rig.out([tokens, width]));
        let attend = match queries {
            Some(_) => Cuda::attend_packed,
            None => Cuda::attend_decode,
        };
        attend(&rig.stream, q.view(), keys.view(), values.view(), rows, self.heads, y.view_mut())
            .map_err(|e| e.to_string())?;
        rig.down(&y)
    }
}

fn decode<A: Activation>(rig: &Rig) -> Result<(), String> {
    for heads in SIZES {
        let q = numbers::<A>(CONTEXTS.len() * heads.heads * heads.head_dim, 40);
        let mut first = None;
        for page_size in [1, 4, 16] {
            let step = Step::<A>::new(heads, page_size);
            let mut want = vec![f32::NAN; q.len()];
            attend_decode(&A::widen(&q), step.cache(), step.pages(), &step.last_page_len, heads, &mut want);
            let got = step.run(rig, &q, None)?;
            rounded(&format!("attend_decode, {heads:?}, pages of {page_size}"), &got, &want, 1e-5)?;
            same("attend_decode at another page size", &got, first.get_or_insert(got.clone()))?;
        }
    }
    Ok(())
}

/// The last 5 tokens of the first context, the only one of the second, all of the third, and two of padding.
fn packed<A: Activation>(rig: &Rig) -> Result<(), String> {
    let indptr = [0, 5, 6, 39, 39];
    let positions: Vec<i32> = (66..71).chain([0]).chain(0..33).chain([0, 0]).collect();
    for heads in SIZES {
        let mut step = Step::<A>::new(heads, 4);
        let width = heads.heads * heads.head_dim;
        let q = numbers::<A>(positions.len() * width, 41);
        let queries = Queries { indptr: &indptr, positions: &positions };
        let mut want = vec![f32::NAN; q.len()];
        attend_packed(&A::widen(&q), step.cache(), step.pages(), queries, heads, &mut want);
        let got = step.run(rig, &q, Some(queries))?;
        rounded(&format!("attend_packed, {heads:?}"), &got, &want, 1e-5)?;

        let lasts = [4, 5, 38, 39].map(|token| token * width..(token + 1) * width);
        let q: Vec<A> = lasts.iter().flat_map(|at| q[at.clone()].to_vec()).collect();
        let of_packed: Vec<A> = lasts.iter().flat_map(|at| got[at.clone()].to_vec()).collect();
        same("the last tokens, decoded", &step.run(rig, &q, None)?, &of_packed)?;

        // Without a row of padding: the tokens of padding are behind the last row all the same.
        step.page_indptr.truncate(4);
        step.last_page_len.truncate(3);
        let queries = Queries { indptr: &indptr[..4], ..queries };
        let q = numbers(positions.len() * width, 41);
        same("attend_packed without a row of padding", &step.run(rig, &q, Some(queries))?, &got)?;
    }
    Ok(())
}
