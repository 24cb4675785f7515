// Compiles a CUDA C++ source for the host: the language's keywords, its built-in variables and functions, and the
// table of kernels that the stand-in driver reads. For tests only: one thread at a time, deterministic, slow.
//
// Not here: tensor cores, inline PTX, textures, cooperative groups, launches from kernels.
#pragma once

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

// CUDA's take two types.
template <class A, class B>
static constexpr std::common_type_t<A, B> max(A a, B b) {
    using Both = std::common_type_t<A, B>;
    return static_cast<Both>(a) < static_cast<Both>(b) ? static_cast<Both>(b) : static_cast<Both>(a);
}
template <class A, class B>
static constexpr std::common_type_t<A, B> min(A a, B b) {
    using Both = std::common_type_t<A, B>;
    return static_cast<Both>(b) < static_cast<Both>(a) ? static_cast<Both>(b) : static_cast<Both>(a);
}

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __managed__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
// Shared memory lies in one section, so that it can be poisoned when a block starts.
#define __shared__ static __attribute__((section("cuda_shared")))

#include "cuda_host/types.h"

#include "cuda_host/fibre.h"

#include "cuda_host/block.h"

#include "cuda_host/warp.h"

#include "cuda_host/atomic.h"
#include "cuda_host/intrinsics.h"

#include "cuda_host/launch.h"

#include "assert.h"
