// y = x W^T for row-major matrices: x is [rows, inner], w is [outer, inner], y is [rows, outer].
//
// A block computes a tile of y, from tiles of x and w in shared memory. Each element is one sum in the order of `inner`,
// so a row has the same bits alone and in any batch. Sums are in float, whatever the elements.
#include "bf16.cuh"
#include "common.cuh"

#define TILE_ROWS 16
#define TILE_COLS 32
#define TILE_DEPTH 32
// Each warp has every fourth row of the tile, each lane one column.
#define WARPS 4
#define LANE_ROWS (TILE_ROWS / WARPS)

struct Tiles {
    float x[TILE_ROWS][TILE_DEPTH];
    // One column more, so that the lanes' reads are in different banks.
    float w[TILE_COLS][TILE_DEPTH + 1];
};

template <class Y, class X, class W>
__device__ inline void linear(Y* y, const X* x, const W* w, u32 rows, u32 inner, u32 outer, Tiles& tiles) {
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 row0 = blockIdx.y * TILE_ROWS, col0 = blockIdx.x * TILE_COLS;
    float sum[LANE_ROWS];
    for (u32 i = 0; i < LANE_ROWS; ++i) sum[i] = 0.0f;
    for (u32 k0 = 0; k0 < inner; k0 += TILE_DEPTH) {
        u32 k = k0 + lane;
        for (u32 r = warp; r < TILE_ROWS; r += WARPS) {
            bool inside = row0 + r < rows && k < inner;
            tiles.x[r][lane] = inside ? load(x + (u64)(row0 + r) * inner + k) : 0.0f;
        }
        for (u32 c = warp; c < TILE_COLS; c += WARPS) {
            bool inside = col0 + c < outer && k < inner;
            tiles.w[c][lane] = inside ? load(w + (u64)(col0 + c) * inner + k) : 0.0f;
        }
        __syncthreads();
        // The same for the whole warp: what has no row is not computed.
        if (row0 + warp < rows) {
            for (u32 d = 0; d < TILE_DEPTH; ++d) {
                float factor = tiles.w[lane][d];
                for (u32 i = 0; i < LANE_ROWS; ++i) sum[i] = fmaf(tiles.x[warp + i * WARPS][d], factor, sum[i]);
            }
        }
        __syncthreads();
    }
    for (u32 i = 0; i < LANE_ROWS; ++i) {
        u32 row = row0 + warp + i * WARPS, col = col0 + lane;
        if (row < rows && col < outer) store(y + (u64)row * outer + col, sum[i]);
    }
}

// The elements of x and w, and that of y where it is not that of x: the beginning of a model, and its logits.
extern "C" __global__ void __launch_bounds__(128) linear_f32_f32(
    float* y, const float* x, const float* w, u32 rows, u32 inner, u32 outer)
{
    __shared__ Tiles tiles;
    linear(y, x, w, rows, inner, outer, tiles);
}

extern "C" __global__ void __launch_bounds__(128) linear_f32_bf16(
    float* y, const float* x, const bf16* w, u32 rows, u32 inner, u32 outer)
{
    __shared__ Tiles tiles;
    linear(y, x, w, rows, inner, outer, tiles);
}

extern "C" __global__ void __launch_bounds__(128) linear_bf16_f32(
    bf16* y, const bf16* x, const float* w, u32 rows, u32 inner, u32 outer)
{
    __shared__ Tiles tiles;
    linear(y, x, w, rows, inner, outer, tiles);
}

extern "C" __global__ void __launch_bounds__(128) linear_bf16_bf16(
    bf16* y, const bf16* x, const bf16* w, u32 rows, u32 inner, u32 outer)
{
    __shared__ Tiles tiles;
    linear(y, x, w, rows, inner, outer, tiles);
}

extern "C" __global__ void __launch_bounds__(128) linear_f32_f32_bf16(
    bf16* y, const float* x, const float* w, u32 rows, u32 inner, u32 outer)
{
    __shared__ Tiles tiles;
    linear(y, x, w, rows, inner, outer, tiles);
}

extern "C" __global__ void __launch_bounds__(128) linear_f32_bf16_bf16(
    bf16* y, const float* x, const bf16* w, u32 rows, u32 inner, u32 outer)
{
    __shared__ Tiles tiles;
    linear(y, x, w, rows, inner, outer, tiles);
}

extern "C" __global__ void __launch_bounds__(128) linear_bf16_f32_f32(
    float* y, const bf16* x, const float* w, u32 rows, u32 inner, u32 outer)
{
    __shared__ Tiles tiles;
    linear(y, x, w, rows, inner, outer, tiles);
}

extern "C" __global__ void __launch_bounds__(128) linear_bf16_bf16_f32(
    float* y, const bf16* x, const bf16* w, u32 rows, u32 inner, u32 outer)
{
    __shared__ Tiles tiles;
    linear(y, x, w, rows, inner, outer, tiles);
}
