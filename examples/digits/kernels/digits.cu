// The vision transformer's own kernels. An image is 16 tokens, and its result does not depend on the others.
#include "attention.cuh"

#define TOKENS 16

// The key of a token of the image.
struct TokenOf {
    u64 first;
    u32 width;
    __device__ u64 operator()(u32 token) const { return first + (u64)token * width; }
};

// Attention of each token over all tokens of its image. A block is a warp, for one token and one head.
template <class T>
__device__ inline void attend(
    T* y, const T* q, const T* keys, const T* values, u32 width, u32 head_dim, float scale)
{
    u32 token = blockIdx.x, head = blockIdx.y;
    u64 mine = (u64)token * width + (u64)head * head_dim;
    TokenOf at = {(u64)(token / TOKENS * TOKENS) * width + (u64)head * head_dim, width};
    attend_one(y + mine, q + mine, keys, values, head_dim, TOKENS, scale, at);
}

extern "C" __global__ void __launch_bounds__(32) attend_f32(
    float* y, const float* q, const float* keys, const float* values, u32 width, u32 head_dim, float scale)
{
    attend(y, q, keys, values, width, head_dim, scale);
}

extern "C" __global__ void __launch_bounds__(32) attend_bf16(
    bf16* y, const bf16* q, const bf16* keys, const bf16* values, u32 width, u32 head_dim, float scale)
{
    attend(y, q, keys, values, width, head_dim, scale);
}

// y = x / (1 + exp(-x)).
template <class T>
__device__ inline void silu(T* y, const T* x, u32 count) {
    u32 i = element();
    if (i < count) store(y + i, silu_of(load(x + i)));
}

extern "C" __global__ void silu_f32(float* y, const float* x, u32 count) {
    silu(y, x, count);
}

extern "C" __global__ void silu_bf16(bf16* y, const bf16* x, u32 count) {
    silu(y, x, count);
}

// The mean of each image's tokens: y is [images, width].
template <class T>
__device__ inline void mean(T* y, const T* x, u32 count, u32 width) {
    u32 i = element();
    if (i >= count) return;
    const T* first = x + (u64)(i / width) * TOKENS * width + i % width;
    float sum = 0.0f;
    for (u32 token = 0; token < TOKENS; ++token) sum += load(first + (u64)token * width);
    store(y + i, sum / (float)TOKENS);
}

extern "C" __global__ void mean_f32(float* y, const float* x, u32 count, u32 width) {
    mean(y, x, count, width);
}

extern "C" __global__ void mean_bf16(bf16* y, const bf16* x, u32 count, u32 width) {
    mean(y, x, count, width);
}
