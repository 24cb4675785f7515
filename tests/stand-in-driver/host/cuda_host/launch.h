// The table of kernels, and how one is launched. The structs are also in the driver's `kernels.rs`; a change of either
// needs a new number in `cuda_host_abi` and there.
#pragma once

#include <type_traits>
#include <utility>

#define CUDA_HOST_EXPORT extern "C" __attribute__((visibility("default")))

struct CudaHostLaunch {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes, reversed;
    const unsigned char* const* params;
};

struct CudaHostParam { uint32_t size, align, pointer; };

struct CudaHostKernel {
    const char* name;
    int (*run)(const CudaHostLaunch*);
    uint32_t param_count;
    const CudaHostParam* params;
};

// The linker defines these around the section of shared memory, if a kernel has any.
extern "C" __attribute__((weak, visibility("hidden"))) char __start_cuda_shared[], __stop_cuda_shared[];

namespace cuda_host {

static std::vector<CudaHostKernel> kernels;
static std::vector<unsigned char> dynamic;
static const CudaHostLaunch* launch;

// Where `extern __shared__` arrays begin.
static inline void* dynamic_shared() {
    auto start = reinterpret_cast<uintptr_t>(dynamic.data());
    return reinterpret_cast<void*>((start + 127) & ~uintptr_t(127));
}

static inline void poison_shared() {
    if (__start_cuda_shared) memset(__start_cuda_shared, 0xFF, static_cast<size_t>(__stop_cuda_shared - __start_cuda_shared));
    std::fill(dynamic.begin(), dynamic.end(), 0xFF);
}

// Whether anything behind the block's dynamic shared memory was written.
static inline bool dynamic_overrun() {
    auto* end = static_cast<unsigned char*>(dynamic_shared()) + launch->shared_bytes;
    return std::any_of(end, dynamic.data() + dynamic.size(), [](unsigned char byte) { return byte != 0xFF; });
}

static inline int run_grid(const CudaHostLaunch* it, void (*body)()) {
    launch = it;
    thread_body = body;
    fault_code = 0;
    gridDim = {it->grid[0], it->grid[1], it->grid[2]};
    blockDim = {it->block[0], it->block[1], it->block[2]};
    dynamic.assign(it->shared_bytes + 256, 0xFF);
    warps.clear();
    warps.resize((blockDim.x * blockDim.y * blockDim.z + 31) / 32);
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
                poison_shared();
                if (!run_block(it->reversed != 0)) return fault_code;
                if (dynamic_overrun()) {
                    snprintf(fault_text, sizeof fault_text, "a block wrote behind its %u bytes of dynamic shared memory",
                             it->shared_bytes);
                    return 700;
                }
            }
    return 0;
}

template <class T>
static T parameter(size_t index) {
    T value;
    memcpy(&value, launch->params[index], sizeof value);
    return value;
}

template <class... Args, size_t... Index>
static void call(void (*kernel)(Args...), std::index_sequence<Index...>) {
    kernel(parameter<std::remove_cv_t<Args>>(Index)...);
}
template <class... Args>
static void call(void (*kernel)(Args...)) { call(kernel, std::index_sequence_for<Args...>{}); }
template <auto kernel>
static void call_kernel() { call(kernel); }
template <auto kernel>
static int run_kernel(const CudaHostLaunch* it) { return run_grid(it, call_kernel<kernel>); }

template <class... Args>
static const CudaHostParam* parameters(void (*)(Args...)) {
    static const CudaHostParam table[] = {
        {uint32_t(sizeof(Args)), uint32_t(alignof(Args)), uint32_t(std::is_pointer_v<Args>)}..., {0, 1, 0}};
    return table;
}
template <class... Args>
static constexpr uint32_t count(void (*)(Args...)) { return sizeof...(Args); }

struct Registration {
    Registration(const char* name, int (*run)(const CudaHostLaunch*), uint32_t params, const CudaHostParam* table) {
        kernels.push_back({name, run, params, table});
    }
};

}  // namespace cuda_host

CUDA_HOST_EXPORT uint32_t cuda_host_abi() { return 1; }
CUDA_HOST_EXPORT const CudaHostKernel* cuda_host_kernels(uint32_t* count) {
    *count = static_cast<uint32_t>(cuda_host::kernels.size());
    return cuda_host::kernels.data();
}
CUDA_HOST_EXPORT const char* cuda_host_fault() { return cuda_host::fault_text; }

// One for each kernel of the source; the compiler side of the crate appends them.
#define CUDA_HOST_KERNEL(name)                                               \
    static const cuda_host::Registration cuda_host_register_##name(          \
        #name, cuda_host::run_kernel<name>, cuda_host::count(name), cuda_host::parameters(name));
