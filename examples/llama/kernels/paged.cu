// Attention over keys and values in pages. A block is a warp, for one token and one head: grid (tokens, heads). A token's
// result depends on its context alone, so decode and a packed prompt give it the same bits, at any page size.
//
// Pages and lengths come from the host. One that is out of range never leads out of the views: a page that there is not
// reads as page 0, and a length ends with the pages.
#include "attention.cuh"

// The pages of one row of a step.
struct Context {
    const int* pages;
    u32 count;
    u32 page_size;
    u32 cache_rows;
    // Elements of a row of the cache, and where the head's begin.
    u32 width;
    u32 from;

    __device__ u64 operator()(u32 token) const {
        u32 page = (u32)pages[token / page_size];
        u32 row = page < cache_rows / page_size ? page * page_size + token % page_size : token % page_size;
        return (u64)row * width + from;
    }
};

__device__ inline Context context_of(
    u32 row, u32 kv_head, const int* page_indptr, const int* page_indices, u32 indices, u32 page_size, u32 cache_rows,
    u32 kv_heads, u32 head_dim)
{
    u32 end = min((u32)page_indptr[row + 1], indices), begin = min((u32)page_indptr[row], end);
    return {page_indices + begin, end - begin, page_size, cache_rows, kv_heads * head_dim, kv_head * head_dim};
}

// One token per row, over its whole context.
template <class T>
__device__ inline void attend_decode(
    T* y, const T* q, const T* keys, const T* values, const int* page_indptr, const int* page_indices,
    const int* last_page_len, u32 indices, u32 page_size, u32 cache_rows, u32 kv_heads, u32 head_dim, float scale)
{
    u32 row = blockIdx.x, head = blockIdx.y, heads = gridDim.y;
    Context context = context_of(
        row, head / (heads / kv_heads), page_indptr, page_indices, indices, page_size, cache_rows, kv_heads, head_dim);
    u32 last = min((u32)last_page_len[row], page_size);
    u32 count = context.count == 0 ? 0 : (context.count - 1) * page_size + last;
    u64 mine = ((u64)row * heads + head) * head_dim;
    attend_one(y + mine, q + mine, keys, values, head_dim, count, scale, context);
}

extern "C" __global__ void __launch_bounds__(32) attend_decode_f32(
    float* y, const float* q, const float* keys, const float* values, const int* page_indptr, const int* page_indices,
    const int* last_page_len, u32 indices, u32 page_size, u32 cache_rows, u32 kv_heads, u32 head_dim, float scale)
{
    attend_decode(
        y, q, keys, values, page_indptr, page_indices, last_page_len, indices, page_size, cache_rows, kv_heads, head_dim,
        scale);
}

extern "C" __global__ void __launch_bounds__(32) attend_decode_bf16(
    bf16* y, const bf16* q, const bf16* keys, const bf16* values, const int* page_indptr, const int* page_indices,
    const int* last_page_len, u32 indices, u32 page_size, u32 cache_rows, u32 kv_heads, u32 head_dim, float scale)
{
    attend_decode(
        y, q, keys, values, page_indptr, page_indices, last_page_len, indices, page_size, cache_rows, kv_heads, head_dim,
        scale);
}

// Chunks of prompts, packed: each token over tokens 0..=position of its row's context. Tokens from indptr[rows] on are
// padding: zero.
template <class T>
__device__ inline void attend_packed(
    T* y, const T* q, const T* keys, const T* values, const int* indptr, const int* positions,
    const int* page_indptr, const int* page_indices, u32 rows, u32 indices, u32 page_size, u32 cache_rows, u32 kv_heads,
    u32 head_dim, float scale)
{
    u32 token = blockIdx.x, head = blockIdx.y, heads = gridDim.y;
    // The last row that begins at the token or before it; what repeats in `indptr` has no tokens.
    u32 row = 0, beyond = rows;
    while (row + 1 < beyond) {
        u32 middle = (row + beyond) / 2;
        if ((u32)indptr[middle] <= token) row = middle;
        else beyond = middle;
    }
    bool real = (u32)indptr[row] <= token && token < (u32)indptr[row + 1];
    Context context = context_of(
        row, head / (heads / kv_heads), page_indptr, page_indices, indices, page_size, cache_rows, kv_heads, head_dim);
    u32 count = real ? min((u32)positions[token] + 1, context.count * page_size) : 0;
    u64 mine = ((u64)token * heads + head) * head_dim;
    attend_one(y + mine, q + mine, keys, values, head_dim, count, scale, context);
}

extern "C" __global__ void __launch_bounds__(32) attend_packed_f32(
    float* y, const float* q, const float* keys, const float* values, const int* indptr, const int* positions,
    const int* page_indptr, const int* page_indices, u32 rows, u32 indices, u32 page_size, u32 cache_rows, u32 kv_heads,
    u32 head_dim, float scale)
{
    attend_packed(
        y, q, keys, values, indptr, positions, page_indptr, page_indices, rows, indices, page_size, cache_rows, kv_heads,
        head_dim, scale);
}

extern "C" __global__ void __launch_bounds__(32) attend_packed_bf16(
    bf16* y, const bf16* q, const bf16* keys, const bf16* values, const int* indptr, const int* positions,
    const int* page_indptr, const int* page_indices, u32 rows, u32 indices, u32 page_size, u32 cache_rows, u32 kv_heads,
    u32 head_dim, float scale)
{
    attend_packed(
        y, q, keys, values, indptr, positions, page_indptr, page_indices, rows, indices, page_size, cache_rows, kv_heads,
        head_dim, scale);
}
