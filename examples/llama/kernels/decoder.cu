// The decoder's kernels that are element by element. A number from the host that is out of range never leads out of a
// view: it gives NaN, or nothing is written.
#include "common.cuh"

// y[i] = table[rows[i]]; NaN for a row that there is not.
extern "C" __global__ void gather(
    float* y, const float* table, const int* rows, u32 table_rows, u32 count, u32 width)
{
    u32 i = element();
    if (i >= count) return;
    u32 row = (u32)rows[i / width];
    y[i] = row < table_rows ? table[(u64)row * width + i % width] : not_a_number();
}

// The rotary embedding: dimension i of a head turns with dimension i + half. A thread has one such pair.
extern "C" __global__ void rotary(
    float* y, const float* x, const int* positions, const float* inverse_frequencies, u32 pairs, u32 half, u32 heads)
{
    u32 pair = element();
    if (pair >= pairs) return;
    u32 i = pair % half, token = pair / half / heads;
    float angle = (float)positions[token] * inverse_frequencies[i];
    float s = sinf(angle), c = cosf(angle);
    u64 a = (u64)(pair / half) * 2 * half + i, b = a + half;
    float from_a = x[a], from_b = x[b];
    y[a] = from_a * c - from_b * s;
    y[b] = from_b * c + from_a * s;
}

// keys[slots[i]] = k[i], values[slots[i]] = v[i].
extern "C" __global__ void store_kv(
    float* keys, float* values, const float* k, const float* v, const int* slots, u32 cache_rows, u32 count, u32 width)
{
    u32 i = element();
    if (i >= count) return;
    u32 row = (u32)slots[i / width];
    if (row >= cache_rows) return;
    u64 to = (u64)row * width + i % width;
    keys[to] = k[i];
    values[to] = v[i];
}

// y = silu(gate) * up.
extern "C" __global__ void silu_mul(float* y, const float* gate, const float* up, u32 count) {
    u32 i = element();
    if (i < count) y[i] = silu_of(gate[i]) * up[i];
}
