// bfloat16 for sources that include CUDA's header: conversions, arithmetic by way of float.
#pragma once
#include "cuda_host/half_like.h"

namespace cuda_host {
struct Bf16Format {
    static uint16_t pack(float x) {
        uint32_t bits = cuda_host_bits<uint32_t>(x);
        if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;  // NaN
        bits += 0x7FFF + (bits >> 16 & 1);                    // to nearest, ties to even
        return static_cast<uint16_t>(bits >> 16);
    }
    static float unpack(uint16_t x) { return cuda_host_bits<float>(uint32_t(x) << 16); }
};
}  // namespace cuda_host

using __nv_bfloat16 = cuda_host::HalfLike<cuda_host::Bf16Format>;
using nv_bfloat16 = __nv_bfloat16;
using __nv_bfloat162 = cuda_host::HalfLike2<__nv_bfloat16>;
using nv_bfloat162 = __nv_bfloat162;

static inline float __bfloat162float(__nv_bfloat16 x) { return float(x); }
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
static inline float2 __bfloat1622float2(__nv_bfloat162 x) { return make_float2(float(x.x), float(x.y)); }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
static inline __nv_bfloat162 __float22bfloat162_rn(float2 x) { return __floats2bfloat162_rn(x.x, x.y); }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __nv_bfloat16::from_bits(x); }
