// IEEE half precision for sources that include CUDA's header: conversions, arithmetic by way of float.
#pragma once
#include "cuda_host/half_like.h"

namespace cuda_host {
struct Fp16Format {
    static uint16_t pack(float x) {
        uint32_t bits = cuda_host_bits<uint32_t>(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7FFFFFFF;
        if (rest > 0x7F800000) return 0x7FFF;                      // NaN
        if (rest >= 0x477FF000) return uint16_t(sign | 0x7C00);    // 65520 and more round to infinity
        if (rest < 0x38800000) {                                   // below the smallest normal number: a multiple of 2^-24
            float scaled = cuda_host_bits<float>(rest) * 16777216.0f;
            return uint16_t(sign | uint32_t(nearbyintf(scaled)));
        }
        rest += 0xFFF + (rest >> 13 & 1);                          // to nearest, ties to even
        return uint16_t(sign | ((rest - 0x38000000) >> 13));
    }
    static float unpack(uint16_t x) {
        uint32_t sign = uint32_t(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 1023;
        if (exponent == 31) return cuda_host_bits<float>(sign | 0x7F800000 | fraction << 13);
        if (exponent == 0) {
            float value = float(fraction) / 16777216.0f;
            return sign ? -value : value;
        }
        return cuda_host_bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
    }
};
}  // namespace cuda_host

using __half = cuda_host::HalfLike<cuda_host::Fp16Format>;
using half = __half;
using __half2 = cuda_host::HalfLike2<__half>;
using half2 = __half2;

static inline float __half2float(__half x) { return float(x); }
static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline float2 __half22float2(__half2 x) { return make_float2(float(x.x), float(x.y)); }
static inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
static inline float __low2float(__half2 x) { return float(x.x); }
static inline float __high2float(__half2 x) { return float(x.y); }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline __half __ushort_as_half(unsigned short x) { return __half::from_bits(x); }
