// Attention of one query of one head, by one warp.
#ifndef ATTENTION_CUH
#define ATTENTION_CUH

#include "bf16.cuh"
#include "common.cuh"

// The widest head is 32 times this.
#define LANE_DIMS 4

// y = softmax(scale * q k^T) v over `count` keys; zeros where there is none. Key i is the `head_dim` elements of `keys`
// from `at(i)` on, and its value those of `values`.
//
// Keys are taken by 32, one a lane; the sums so far are scaled down when a larger score comes. The result depends on
// the query and its keys alone.
template <class T, class At>
__device__ void attend_one(
    T* y, const T* q, const T* keys, const T* values, u32 head_dim, u32 count, float scale, At at)
{
    u32 lane = threadIdx.x % WARP;
    float largest = minus_infinity(), total = 0.0f, sum[LANE_DIMS];
    for (u32 j = 0; j < LANE_DIMS; ++j) sum[j] = 0.0f;
    for (u32 first = 0; first < count; first += WARP) {
        u32 here = count - first < WARP ? count - first : WARP;
        float score = minus_infinity();
        if (lane < here) {
            const T* key = keys + at(first + lane);
            score = 0.0f;
            for (u32 d = 0; d < head_dim; ++d) score = fmaf(load(q + d), load(key + d), score);
            score *= scale;
        }
        float next = fmaxf(largest, warp_max(score));
        float shrink = expf(largest - next);
        float weight = lane < here ? expf(score - next) : 0.0f;
        largest = next;
        total = fmaf(total, shrink, warp_sum(weight));
        for (u32 j = 0; j < LANE_DIMS; ++j) sum[j] *= shrink;
        for (u32 i = 0; i < here; ++i) {
            const T* value = values + at(first + i);
            float factor = __shfl_sync(ALL_LANES, weight, i);
            for (u32 j = 0; j < LANE_DIMS; ++j) {
                u32 d = lane + j * WARP;
                if (d < head_dim) sum[j] = fmaf(factor, load(value + d), sum[j]);
            }
        }
    }
    for (u32 j = 0; j < LANE_DIMS; ++j) {
        u32 d = lane + j * WARP;
        if (d < head_dim) store(y + d, count == 0 ? 0.0f : sum[j] / total);
    }
}

#endif
