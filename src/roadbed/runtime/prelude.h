// SPDX-License-Identifier: Apache-2.0
// One kernel language for OpenCL C and CUDA C++: kernels use these names only.
//
// The runtime defines ROADBED_CUDA for NVRTC, and LANES: the number of neighbouring work-items that share a small task.
// On a CPU device LANES is 1 (one work-item does a whole task, without barriers); on GPUs it is 8.

#ifdef ROADBED_CUDA

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef long long int64;
typedef unsigned long long address_t;
typedef double real;

#define KERNEL extern "C" __global__ void
#define KERNEL_OF_SIZE(size) extern "C" __global__ void __launch_bounds__(size, 1)
#define FUNCTION static __device__ __forceinline__
#define GLOBAL
#define LOCAL_ARRAY __shared__
#define LOCAL
#define RESTRICT __restrict__
#define UNROLL _Pragma("unroll")
#define UNROLL_8 _Pragma("unroll 8")  // a sum in order whose loads are issued early: memory latency is high
#define POPCOUNT(bits) __popc(bits)

#define LOCAL_ID ((int)threadIdx.x)
#define LOCAL_SIZE ((int)blockDim.x)
#define GROUP_ID ((int)blockIdx.x)
#define GROUP_COUNT ((int)gridDim.x)
#define SLOT ((int)blockIdx.y)
#define BARRIER() __syncthreads()

#define ATOMIC_ADD(pointer, value) atomicAdd(pointer, value)
#define ATOMIC_OR(pointer, value) atomicOr(pointer, value)
#define ATOMIC_READ(pointer) (*(volatile int *)(pointer))
#define ATOMIC_MIN(pointer, value) atomicMin(pointer, value)
#define ATOMIC_MAX(pointer, value) atomicMax(pointer, value)
#define ATOMIC_EXCHANGE(pointer, value) atomicExch(pointer, value)

#define FLOAT4(x, y, z, w) make_float4(x, y, z, w)
#define INT2(x, y) make_int2(x, y)
#define INT4(x, y, z, w) make_int4(x, y, z, w)
#define UINT4(x, y, z, w) make_uint4(x, y, z, w)
#define BITS_OF(value) __float_as_uint(value)
#define FLOAT_OF(bits) __uint_as_float(bits)
#define EXP2(x) exp2f(x)
#define MULTIPLY_HIGH(a, b) __umulhi(a, b)

// The caller's memory (pinned host memory or an array of another library) if its address is not 0, else our buffer.
#define AT(type, address, buffer) ((address) ? (type *)(address) : (buffer))

#else

typedef long int64;
typedef ulong address_t;
#ifdef WITH_DOUBLE
typedef double real;  // as on the CPU, so that results are equal
#else
typedef float real;
#endif

#define KERNEL __kernel void
#define KERNEL_OF_SIZE(size) __kernel __attribute__((reqd_work_group_size(size, 1, 1))) void
#define FUNCTION static inline __attribute__((always_inline))
#define GLOBAL __global
#define LOCAL_ARRAY __local
#define LOCAL __local
#define RESTRICT restrict
#define UNROLL
#define UNROLL_8
#define POPCOUNT(bits) popcount(bits)

#define LOCAL_ID ((int)get_local_id(0))
#define LOCAL_SIZE ((int)get_local_size(0))
#define GROUP_ID ((int)get_group_id(0))
#define GROUP_COUNT ((int)get_num_groups(0))
#define SLOT ((int)get_group_id(1))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

#define ATOMIC_ADD(pointer, value) atomic_add(pointer, value)
#define ATOMIC_OR(pointer, value) atomic_or(pointer, value)
#define ATOMIC_READ(pointer) atomic_or(pointer, 0)  // a plain read may return a stale value of the cache
#define ATOMIC_MIN(pointer, value) atomic_min(pointer, value)
#define ATOMIC_MAX(pointer, value) atomic_max(pointer, value)
#define ATOMIC_EXCHANGE(pointer, value) atomic_xchg(pointer, value)

#define FLOAT4(x, y, z, w) ((float4)(x, y, z, w))
#define INT2(x, y) ((int2)(x, y))
#define INT4(x, y, z, w) ((int4)(x, y, z, w))
#define UINT4(x, y, z, w) ((uint4)(x, y, z, w))
#define BITS_OF(value) as_uint(value)
#define FLOAT_OF(bits) as_float(bits)
#define MULTIPLY_HIGH(a, b) mul_hi(a, b)

#define AT(type, address, buffer) (buffer)

#if LANES == 1
// 2^x for x <= 0, relative error below 2e-7, for one and for eight numbers: CPU compilers do not vectorise such loops.
#define EXP2_OF(NAME, NUMBER, WHOLE, TO_WHOLE, TO_NUMBER, OF_BITS, TO_BITS)        \
FUNCTION NUMBER NAME(NUMBER x) {                                                   \
    x = fmax(x, -126.0f);                                                          \
    WHOLE whole = TO_WHOLE(x - 0.5f); /* the nearest; rint is slow on some CPUs */\
    NUMBER f = x - TO_NUMBER(whole), p = 1.5353362e-4f;                            \
    p = p * f + 1.3398874e-3f;                                                     \
    p = p * f + 9.6184373e-3f;                                                     \
    p = p * f + 5.5503324e-2f;                                                     \
    p = p * f + 2.4022648e-1f;                                                     \
    p = p * f + 6.9314720e-1f;                                                     \
    p = p * f + 1.0f;                                                              \
    return OF_BITS(TO_BITS(p) + (whole << 23));                                    \
}

EXP2_OF(EXP2, float, int, convert_int, convert_float, as_float, as_int)
EXP2_OF(exp2_of_eight, float8, int8, convert_int8, convert_float8, as_float8, as_int8)
#else
#define EXP2(x) native_exp2(x)
#endif

#endif

#define GLOBAL_ID (GROUP_ID * LOCAL_SIZE + LOCAL_ID)
#define GLOBAL_SIZE (GROUP_COUNT * LOCAL_SIZE)

// A loop over all items: neighbouring work-items take neighbouring items on a GPU (coalesced reads); on a CPU device each
// work-item takes one chunk (cache locality).
#if LANES > 1
#define FOR_EACH(i, count) for (int i = GLOBAL_ID; i < (count); i += GLOBAL_SIZE)
#else
#define FOR_EACH(i, count) \
    for (int i = chunk_begin(GLOBAL_ID, count), i##_end = chunk_begin(GLOBAL_ID + 1, count); i < i##_end; ++i)
#endif

#define NOT_A_NUMBER FLOAT_OF(0x7fc00000u)

FUNCTION int chunk_begin(int item, int count) { return min(item * ((count - 1) / (int)GLOBAL_SIZE + 1), count); }

// Groups in the order first, last, second, ... PoCL's threads take many groups at first and few at the end, so the middle
// of a lattice, which holds most points, comes last and is shared most evenly.
FUNCTION int from_both_ends(int group, int groups) { return group % 2 ? groups - 1 - group / 2 : group / 2; }

// Floats as unsigned integers of the same order, for atomic minima.
FUNCTION uint float_to_key(float z) {
    uint bits = BITS_OF(z);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
FUNCTION float key_to_float(uint key) { return FLOAT_OF(key & 0x80000000u ? key & 0x7fffffffu : ~key); }

// By bits, because relaxed mathematics assumes finite numbers.
FUNCTION int is_finite(float value) { return (BITS_OF(value) & 0x7f800000u) != 0x7f800000u; }
