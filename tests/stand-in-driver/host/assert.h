// Device assertions: a failed one ends the launch with error 710. Without a guard, like the C library's.
#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : cuda_host::fail(710, "line %d: assertion failed: %s", __LINE__, #condition))
