// The toy operations of the suite: whole numbers in floats, so that every backend gives the same bits.
#include "common.cuh"

extern "C" __global__ void affine(float* y, const float* x, float scale, float shift, u32 n) {
    u32 i = element();
    if (i < n) y[i] = scale * x[i] + shift;
}

// `rope` has three runs of n.
extern "C" __global__ void add_up(
    float* sum, const int* ids, const int* rope, const int* m, const float* z, u32 n) {
    u32 t = element();
    if (t < n) sum[t] = (float)(ids[t] + rope[t] + rope[n + t] + rope[2 * n + t] + m[t]) + z[t];
}

// Rows of two.
extern "C" __global__ void spread(float* y, const float* x, const float* scale, const float* sum, u32 n) {
    u32 t = element();
    if (t >= n) return;
    y[2 * t] = x[2 * t] * scale[t] + sum[t];
    y[2 * t + 1] = x[2 * t + 1] * scale[t] - sum[t];
}

// One thread: rows of one page count one after the other.
extern "C" __global__ void count(int* now, int* counts, const int* page, u32 n, u32 pages) {
    for (u32 t = 0; t < n; ++t) {
        u32 at = (u32)page[t];
        if (at < pages) now[t] = ++counts[at];
    }
}

extern "C" __global__ void write_keys(
    float* keys, const int* token, const int* slot_mapping, const int* positions, u32 n, u32 rows) {
    u32 t = element();
    if (t < n && (u32)slot_mapping[t] < rows) keys[slot_mapping[t]] = (float)(token[t] * (1 + positions[t] % 7));
}

// One thread for a row: the sum of its stream, in order.
extern "C" __global__ void sum_pages(
    float* sum, const float* keys, const int* page_indptr, const int* page_indices, const int* last_page_len,
    u32 rows, u32 page_size, u32 key_rows) {
    u32 row = element();
    if (row >= rows) return;
    u32 first = page_indptr[row], pages = page_indptr[row + 1] - first;
    u32 tokens = pages == 0 ? 0 : (pages - 1) * page_size + last_page_len[row];
    float all = 0.0f;
    for (u32 i = 0; i < tokens; ++i) {
        u32 at = page_indices[first + i / page_size] * page_size + i % page_size;
        if (at < key_rows) all += keys[at];
    }
    sum[row] = all;
}

// Quarters of what is left of a row's sum and an id, divided by 13.
extern "C" __global__ void toy_logits(float* logits, const float* sum, u32 n, u32 vocabulary) {
    u32 i = element();
    if (i >= n) return;
    long long mixed = (long long)sum[i / vocabulary] * 31 + (long long)(i % vocabulary) * 17;
    logits[i] = (float)((mixed % 13 + 13) % 13) / 4.0f;
}
