// Element by element, or row by row.
#include "common.cuh"

#define NORM_WARPS 4

// y = x * rsqrt(mean(x^2) + eps) * weight. A block has one row.
extern "C" __global__ void __launch_bounds__(128) rms_norm(
    float* y, const float* x, const float* weight, float eps, u32 width)
{
    __shared__ float part[NORM_WARPS];
    const float* row = x + (u64)blockIdx.x * width;
    float squares = 0.0f;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) squares = fmaf(row[i], row[i], squares);
    float mean = block_sum(squares, part) / (float)width;
    float scale = 1.0f / sqrtf(mean + eps);
    for (u32 i = threadIdx.x; i < width; i += blockDim.x)
        y[(u64)blockIdx.x * width + i] = row[i] * scale * weight[i];
}

// y[i] = a[i] + b[i mod period].
extern "C" __global__ void add(float* y, const float* a, const float* b, u32 count, u32 period) {
    u32 i = element();
    if (i < count) y[i] = a[i] + b[i % period];
}
