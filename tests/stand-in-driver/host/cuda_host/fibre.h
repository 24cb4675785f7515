// Fibres: a stack each, and a switch from one to another. One CUDA thread that has to wait keeps a fibre meanwhile.
#pragma once

#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace cuda_host {

constexpr size_t STACK_BYTES = 256 << 10;
constexpr size_t GUARD_BYTES = 64 << 10;  // a multiple of every page size in use; below the stack, not accessible

static inline char* new_stack() {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* start = mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED || mprotect(start, GUARD_BYTES, PROT_NONE) != 0) {
        fprintf(stderr, "stand-in driver: no memory for the stack of a CUDA thread\n");
        abort();
    }
    return static_cast<char*>(start) + GUARD_BYTES;
}

#if defined(__x86_64__)

// Saves the registers that a callee must keep and the stack pointer, then goes on where `load` was saved.
extern "C" void cuda_host_switch(void** save, void* load) __attribute__((visibility("hidden")));
asm(R"(
.pushsection .text
.type cuda_host_switch, @function
.hidden cuda_host_switch
.globl cuda_host_switch
cuda_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cuda_host_switch, . - cuda_host_switch
.popsection
)");

struct Fibre {
    char* stack = nullptr;
    void* top = nullptr;

    // The next switch to it calls `entry`, which never returns.
    void prepare(void (*entry)()) {
        if (!stack) stack = new_stack();
        void** frame = reinterpret_cast<void**>(stack + STACK_BYTES) - 2;
        frame[0] = reinterpret_cast<void*>(entry);
        frame[1] = nullptr;  // where `entry` would return to; it also gives the stack a called function's alignment
        top = frame - 6;     // six registers, whatever they hold
    }
    void switch_to(Fibre& other) { cuda_host_switch(&top, other.top); }
};

#else

struct Fibre {
    char* stack = nullptr;
    ucontext_t context;

    void prepare(void (*entry)()) {
        if (!stack) stack = new_stack();
        getcontext(&context);
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = STACK_BYTES;
        context.uc_link = nullptr;
        makecontext(&context, entry, 0);
    }
    void switch_to(Fibre& other) { swapcontext(&context, &other.context); }
};

#endif

}  // namespace cuda_host
