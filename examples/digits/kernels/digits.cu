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
extern "C" __global__ void __launch_bounds__(32) attend(
    float* y, const float* q, const float* keys, const float* values, u32 width, u32 head_dim, float scale)
{
    u32 token = blockIdx.x, head = blockIdx.y;
    u64 mine = (u64)token * width + (u64)head * head_dim;
    TokenOf at = {(u64)(token / TOKENS * TOKENS) * width + (u64)head * head_dim, width};
    attend_one(y + mine, q + mine, keys, values, head_dim, TOKENS, scale, at);
}

// y = x / (1 + exp(-x)).
extern "C" __global__ void silu(float* y, const float* x, u32 count) {
    u32 i = element();
    if (i < count) y[i] = silu_of(x[i]);
}

// The mean of each image's tokens: y is [images, width].
extern "C" __global__ void mean(float* y, const float* x, u32 count, u32 width) {
    u32 i = element();
    if (i >= count) return;
    const float* first = x + (u64)(i / width) * TOKENS * width + i % width;
    float sum = 0.0f;
    for (u32 token = 0; token < TOKENS; ++token) sum += first[(u64)token * width];
    y[i] = sum / (float)TOKENS;
}
