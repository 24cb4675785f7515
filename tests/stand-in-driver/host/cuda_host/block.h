// One block of CUDA threads: each runs until it has to wait, and whoever completes a meeting sets the others free.
// Meetings are strict: every thread that is meant must come, to the same line. If nobody can go on, or two lines meet,
// the launch fails with error 719 and a text.
#pragma once

#include <cstdarg>
#include <vector>

static uint3 threadIdx;
static uint3 blockIdx;
static uint3 blockDim;
static uint3 gridDim;
static constexpr int warpSize = 32;

namespace cuda_host {

// A place where threads wait for each other.
struct Meeting {
    const char* what = "";
    int line = 0;
    unsigned generation = 0;
    std::vector<unsigned> waiting;
};

enum class Progress { fresh, ready, waiting, exited };

struct Thread {
    uint3 index;
    Progress progress;
    Fibre* fibre;
    Meeting* at;
};

static std::vector<Thread> threads;
static std::vector<Fibre*> spare_fibres;
static Fibre scheduler;
static unsigned current;
static void (*thread_body)();
static int fault_code;
static char fault_text[512];
static Meeting block_meeting;

static inline unsigned linear(uint3 index) { return index.x + blockDim.x * (index.y + blockDim.y * index.z); }

static inline void leave() { threads[current].fibre->switch_to(scheduler); }

// Ends the launch with an error. The fibre that calls it never runs again.
__attribute__((format(printf, 2, 3))) static inline void fail(int code, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault_text, sizeof fault_text, format, arguments);
    va_end(arguments);
    fault_code = code;
    for (;;) leave();
}

// Waits until `expected` threads have come to the meeting.
static inline void meet(Meeting& meeting, unsigned expected, const char* what, int line) {
    if (meeting.waiting.empty()) {
        meeting.what = what;
        meeting.line = line;
    } else if (meeting.line != line) {
        fail(719, "%s at line %d meets %s at line %d: not every thread takes the same way", what, line, meeting.what,
             meeting.line);
    }
    if (meeting.waiting.size() + 1 < expected) {
        meeting.waiting.push_back(current);
        threads[current].progress = Progress::waiting;
        threads[current].at = &meeting;
        leave();
        return;
    }
    for (unsigned thread : meeting.waiting) threads[thread].progress = Progress::ready;
    meeting.waiting.clear();
    ++meeting.generation;
}

static inline void thread_main() {
    for (;;) {
        thread_body();
        threads[current].progress = Progress::exited;
        leave();
    }
}

static inline void resume(unsigned index) {
    Thread& thread = threads[index];
    if (thread.progress == Progress::fresh) {
        if (spare_fibres.empty()) spare_fibres.push_back(new Fibre);
        thread.fibre = spare_fibres.back();
        spare_fibres.pop_back();
        thread.fibre->prepare(thread_main);
        thread.progress = Progress::ready;
    }
    current = index;
    threadIdx = thread.index;
    scheduler.switch_to(*thread.fibre);
    if (thread.progress == Progress::exited) spare_fibres.push_back(thread.fibre);
}

static inline void describe_deadlock() {
    unsigned exited = 0, waiting = 0;
    const Meeting* at = nullptr;
    for (const Thread& thread : threads) {
        exited += thread.progress == Progress::exited;
        waiting += thread.progress == Progress::waiting;
        if (thread.progress == Progress::waiting) at = thread.at;
    }
    snprintf(fault_text, sizeof fault_text,
             "%u threads wait at %s at line %d for others that never come: %u have returned, %u wait in all",
             at ? static_cast<unsigned>(at->waiting.size()) : 0u, at ? at->what : "?", at ? at->line : 0, exited, waiting);
    fault_code = 719;
}

// Runs one block to its end; false if it failed.
static inline bool run_block(bool reversed) {
    unsigned count = blockDim.x * blockDim.y * blockDim.z, left = count;
    threads.resize(count);
    for (unsigned i = 0; i < count; ++i) {
        uint3 index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
        threads[i] = {index, Progress::fresh, nullptr, nullptr};
    }
    block_meeting.waiting.clear();
    while (left && !fault_code) {
        bool moved = false;
        for (unsigned i = 0; i < count && !fault_code; ++i) {
            unsigned index = reversed ? count - 1 - i : i;
            Progress before = threads[index].progress;
            if (before != Progress::fresh && before != Progress::ready) continue;
            moved = true;
            resume(index);
            left -= threads[index].progress == Progress::exited;
        }
        if (!moved) describe_deadlock();
    }
    for (Thread& thread : threads)
        if (thread.fibre && thread.progress != Progress::exited) spare_fibres.push_back(thread.fibre);
    return fault_code == 0;
}

// What the threads of a block say to each other in the counting barriers. Two generations never overlap by more than
// one, so two counters are enough.
static int votes[2][3];

enum Vote { COUNT, AND, OR };

static inline int block_vote(Vote vote, bool mine, const char* what, int line) {
    unsigned phase = block_meeting.generation & 1;
    if (block_meeting.waiting.empty()) {
        votes[phase][COUNT] = votes[phase][OR] = 0;
        votes[phase][AND] = 1;
    }
    votes[phase][COUNT] += mine;
    votes[phase][OR] |= mine;
    votes[phase][AND] &= mine;
    meet(block_meeting, static_cast<unsigned>(threads.size()), what, line);
    return votes[phase][vote];
}

}  // namespace cuda_host

static inline void __syncthreads(int line = __builtin_LINE()) {
    cuda_host::meet(cuda_host::block_meeting, static_cast<unsigned>(cuda_host::threads.size()), "__syncthreads", line);
}
static inline int __syncthreads_count(int mine, int line = __builtin_LINE()) {
    return cuda_host::block_vote(cuda_host::COUNT, mine != 0, "__syncthreads_count", line);
}
static inline int __syncthreads_and(int mine, int line = __builtin_LINE()) {
    return cuda_host::block_vote(cuda_host::AND, mine != 0, "__syncthreads_and", line);
}
static inline int __syncthreads_or(int mine, int line = __builtin_LINE()) {
    return cuda_host::block_vote(cuda_host::OR, mine != 0, "__syncthreads_or", line);
}

static inline void __trap() { cuda_host::fail(719, "__trap"); }
