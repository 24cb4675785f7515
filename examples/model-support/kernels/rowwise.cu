// Element by element, or row by row. Sums are in float, whatever the elements.
#include "bf16.cuh"
#include "common.cuh"

#define NORM_WARPS 4

// y = x * rsqrt(mean(x^2) + eps) * weight. A block has one row; `part` is shared memory, one element per warp.
template <class Y, class X>
__device__ inline void rms_norm(Y* y, const X* x, const float* weight, float eps, u32 width, float* part) {
    const X* row = x + (u64)blockIdx.x * width;
    float squares = 0.0f;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) squares = fmaf(load(row + i), load(row + i), squares);
    float mean = block_sum(squares, part) / (float)width;
    float scale = 1.0f / sqrtf(mean + eps);
    for (u32 i = threadIdx.x; i < width; i += blockDim.x)
        store(y + (u64)blockIdx.x * width + i, load(row + i) * scale * weight[i]);
}

extern "C" __global__ void __launch_bounds__(128) rms_norm_f32(
    float* y, const float* x, const float* weight, float eps, u32 width)
{
    __shared__ float part[NORM_WARPS];
    rms_norm(y, x, weight, eps, width, part);
}

extern "C" __global__ void __launch_bounds__(128) rms_norm_bf16(
    bf16* y, const bf16* x, const float* weight, float eps, u32 width)
{
    __shared__ float part[NORM_WARPS];
    rms_norm(y, x, weight, eps, width, part);
}

// The elements of x and y.
extern "C" __global__ void __launch_bounds__(128) rms_norm_f32_bf16(
    bf16* y, const float* x, const float* weight, float eps, u32 width)
{
    __shared__ float part[NORM_WARPS];
    rms_norm(y, x, weight, eps, width, part);
}

extern "C" __global__ void __launch_bounds__(128) rms_norm_bf16_f32(
    float* y, const bf16* x, const float* weight, float eps, u32 width)
{
    __shared__ float part[NORM_WARPS];
    rms_norm(y, x, weight, eps, width, part);
}

// y[i] = a[i] + b[i mod period].
template <class Y, class A, class B>
__device__ inline void add(Y* y, const A* a, const B* b, u32 count, u32 period) {
    u32 i = element();
    if (i < count) store(y + i, load(a + i) + load(b + i % period));
}

// The elements of a and b, and that of y where it is not that of a.
extern "C" __global__ void add_f32_f32(float* y, const float* a, const float* b, u32 count, u32 period) {
    add(y, a, b, count, period);
}

extern "C" __global__ void add_bf16_f32(bf16* y, const bf16* a, const float* b, u32 count, u32 period) {
    add(y, a, b, count, period);
}

extern "C" __global__ void add_bf16_bf16(bf16* y, const bf16* a, const bf16* b, u32 count, u32 period) {
    add(y, a, b, count, period);
}

extern "C" __global__ void add_bf16_f32_f32(float* y, const bf16* a, const float* b, u32 count, u32 period) {
    add(y, a, b, count, period);
}

extern "C" __global__ void add_f32_f32_bf16(bf16* y, const float* a, const float* b, u32 count, u32 period) {
    add(y, a, b, count, period);
}
