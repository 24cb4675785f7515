// What the threads of a warp do together: shuffles, votes, reductions. All threads that the mask names must come; a
// lane that never existed (the block ends inside the warp) is not waited for, one that has returned is.
#pragma once

#include <map>

namespace cuda_host {

struct Lanes {
    Meeting meeting;
    uint64_t value[2][32];
};

// Per warp and mask. Nodes of a map stay where they are.
static std::vector<std::map<unsigned, Lanes>> warps;

static inline unsigned lane() { return current % 32; }

static inline unsigned existing_lanes() {
    unsigned first = current / 32 * 32, count = std::min<unsigned>(32, static_cast<unsigned>(threads.size()) - first);
    return count == 32 ? ~0u : (1u << count) - 1;
}

// Gives every lane of the mask the values of all. The result is good until the lane's next meeting but one.
template <class T>
static inline const uint64_t* gather(unsigned mask, T mine, const char* what, int line) {
    static_assert(sizeof(T) <= 8, "a shuffle moves four or eight bytes");
    if (!(mask >> lane() & 1)) fail(719, "%s at line %d: lane %u calls it and is not in its mask %#x", what, line, lane(), mask);
    Lanes& lanes = warps[current / 32][mask];
    unsigned phase = lanes.meeting.generation & 1;
    uint64_t bits = 0;
    memcpy(&bits, &mine, sizeof mine);
    lanes.value[phase][lane()] = bits;
    meet(lanes.meeting, static_cast<unsigned>(__builtin_popcount(mask & existing_lanes())), what, line);
    return lanes.value[phase];
}

// The value of another lane; poison if that lane is not in the mask or does not exist.
template <class T>
static inline T take(unsigned mask, T mine, unsigned source, const char* what, int line) {
    const uint64_t* values = gather(mask, mine, what, line);
    uint64_t bits = (mask & existing_lanes()) >> source & 1 ? values[source] : ~uint64_t(0);
    T result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

template <class T, class F>
static inline T reduce(unsigned mask, T mine, F combine, const char* what, int line) {
    const uint64_t* values = gather(mask, mine, what, line);
    bool first = true;
    T sum{};
    for (unsigned i = 0; i < 32; ++i) {
        if (!((mask & existing_lanes()) >> i & 1)) continue;
        T value;
        memcpy(&value, &values[i], sizeof value);
        sum = first ? value : combine(sum, value);
        first = false;
    }
    return sum;
}

}  // namespace cuda_host

// Inside a segment of `width` lanes; a source outside the segment is the lane itself, or wraps for a plain shuffle.
template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE()) {
    unsigned base = cuda_host::lane() & ~unsigned(width - 1);
    return cuda_host::take(mask, value, base | (unsigned(source) & unsigned(width - 1)), "__shfl_sync", line);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, int line = __builtin_LINE()) {
    unsigned me = cuda_host::lane(), source = me ^ unsigned(bits);
    // A source in an earlier segment can be read, one in a later segment cannot.
    if (source >= (me & ~unsigned(width - 1)) + unsigned(width)) source = me;
    return cuda_host::take(mask, value, source, "__shfl_xor_sync", line);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
    unsigned me = cuda_host::lane(), end = (me & ~unsigned(width - 1)) + unsigned(width);
    return cuda_host::take(mask, value, me + delta < end ? me + delta : me, "__shfl_down_sync", line);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
    unsigned me = cuda_host::lane(), start = me & ~unsigned(width - 1);
    return cuda_host::take(mask, value, me >= start + delta ? me - delta : me, "__shfl_up_sync", line);
}

static inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) {
    cuda_host::gather(mask, 0, "__syncwarp", line);
}
static inline unsigned __ballot_sync(unsigned mask, int mine, int line = __builtin_LINE()) {
    const uint64_t* values = cuda_host::gather(mask, int(mine != 0), "__ballot_sync", line);
    unsigned ballot = 0;
    for (unsigned i = 0; i < 32; ++i)
        if ((mask & cuda_host::existing_lanes()) >> i & 1) ballot |= unsigned(values[i]) << i;
    return ballot;
}
static inline int __any_sync(unsigned mask, int mine, int line = __builtin_LINE()) {
    return __ballot_sync(mask, mine, line) != 0;
}
static inline int __all_sync(unsigned mask, int mine, int line = __builtin_LINE()) {
    return __ballot_sync(mask, mine, line) == (mask & cuda_host::existing_lanes());
}
static inline unsigned __activemask() {
    unsigned first = cuda_host::current / 32 * 32, mask = 0;
    for (unsigned i = 0; i < 32 && first + i < cuda_host::threads.size(); ++i)
        if (cuda_host::threads[first + i].progress != cuda_host::Progress::exited) mask |= 1u << i;
    return mask;
}

#define CUDA_HOST_REDUCE(type, name, expression)                                                       \
    static inline type name(unsigned mask, type value, int line = __builtin_LINE()) {                  \
        return cuda_host::reduce(mask, value, [](type a, type b) -> type { return expression; }, #name, line); \
    }
CUDA_HOST_REDUCE(int, __reduce_add_sync, a + b)
CUDA_HOST_REDUCE(int, __reduce_min_sync, a < b ? a : b)
CUDA_HOST_REDUCE(int, __reduce_max_sync, a < b ? b : a)
CUDA_HOST_REDUCE(unsigned, __reduce_add_sync, a + b)
CUDA_HOST_REDUCE(unsigned, __reduce_min_sync, a < b ? a : b)
CUDA_HOST_REDUCE(unsigned, __reduce_max_sync, a < b ? b : a)
CUDA_HOST_REDUCE(unsigned, __reduce_and_sync, a & b)
CUDA_HOST_REDUCE(unsigned, __reduce_or_sync, a | b)
CUDA_HOST_REDUCE(unsigned, __reduce_xor_sync, a ^ b)
#undef CUDA_HOST_REDUCE
