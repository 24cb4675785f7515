// The decoder's kernels that are element by element. A number from the host that is out of range never leads out of a
// view: it gives NaN, or nothing is written.
#include "bf16.cuh"
#include "common.cuh"

// y[i] = table[rows[i]]; NaN for a row that there is not.
template <class Y, class Table>
__device__ inline void gather(Y* y, const Table* table, const int* rows, u32 table_rows, u32 count, u32 width) {
    u32 i = element();
    if (i >= count) return;
    u32 row = (u32)rows[i / width];
    store(y + i, row < table_rows ? load(table + (u64)row * width + i % width) : not_a_number());
}

// The elements of y and of the table.
extern "C" __global__ void gather_f32_f32(
    float* y, const float* table, const int* rows, u32 table_rows, u32 count, u32 width)
{
    gather(y, table, rows, table_rows, count, width);
}

extern "C" __global__ void gather_f32_bf16(
    float* y, const bf16* table, const int* rows, u32 table_rows, u32 count, u32 width)
{
    gather(y, table, rows, table_rows, count, width);
}

extern "C" __global__ void gather_bf16_f32(
    bf16* y, const float* table, const int* rows, u32 table_rows, u32 count, u32 width)
{
    gather(y, table, rows, table_rows, count, width);
}

extern "C" __global__ void gather_bf16_bf16(
    bf16* y, const bf16* table, const int* rows, u32 table_rows, u32 count, u32 width)
{
    gather(y, table, rows, table_rows, count, width);
}

// The rotary embedding: dimension i of a head turns with dimension i + half. A thread has one such pair.
template <class T>
__device__ inline void rotary(
    T* y, const T* x, const int* positions, const float* inverse_frequencies, u32 pairs, u32 half, u32 heads)
{
    u32 pair = element();
    if (pair >= pairs) return;
    u32 i = pair % half, token = pair / half / heads;
    float angle = (float)positions[token] * inverse_frequencies[i];
    float s = sinf(angle), c = cosf(angle);
    u64 a = (u64)(pair / half) * 2 * half + i, b = a + half;
    float from_a = load(x + a), from_b = load(x + b);
    store(y + a, from_a * c - from_b * s);
    store(y + b, from_b * c + from_a * s);
}

extern "C" __global__ void rotary_f32(
    float* y, const float* x, const int* positions, const float* inverse_frequencies, u32 pairs, u32 half, u32 heads)
{
    rotary(y, x, positions, inverse_frequencies, pairs, half, heads);
}

extern "C" __global__ void rotary_bf16(
    bf16* y, const bf16* x, const int* positions, const float* inverse_frequencies, u32 pairs, u32 half, u32 heads)
{
    rotary(y, x, positions, inverse_frequencies, pairs, half, heads);
}

// keys[slots[i]] = k[i], values[slots[i]] = v[i].
template <class T>
__device__ inline void store_kv(
    T* keys, T* values, const T* k, const T* v, const int* slots, u32 cache_rows, u32 count, u32 width)
{
    u32 i = element();
    if (i >= count) return;
    u32 row = (u32)slots[i / width];
    if (row >= cache_rows) return;
    u64 to = (u64)row * width + i % width;
    keys[to] = k[i];
    values[to] = v[i];
}

extern "C" __global__ void store_kv_f32(
    float* keys, float* values, const float* k, const float* v, const int* slots, u32 cache_rows, u32 count, u32 width)
{
    store_kv(keys, values, k, v, slots, cache_rows, count, width);
}

extern "C" __global__ void store_kv_bf16(
    bf16* keys, bf16* values, const bf16* k, const bf16* v, const int* slots, u32 cache_rows, u32 count, u32 width)
{
    store_kv(keys, values, k, v, slots, cache_rows, count, width);
}

// y = silu(gate) * up.
template <class T>
__device__ inline void silu_mul(T* y, const T* gate, const T* up, u32 count) {
    u32 i = element();
    if (i < count) store(y + i, silu_of(load(gate + i)) * load(up + i));
}

extern "C" __global__ void silu_mul_f32(float* y, const float* gate, const float* up, u32 count) {
    silu_mul(y, gate, up, count);
}

extern "C" __global__ void silu_mul_bf16(bf16* y, const bf16* gate, const bf16* up, u32 count) {
    silu_mul(y, gate, up, count);
}
