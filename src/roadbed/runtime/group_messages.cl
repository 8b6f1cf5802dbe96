// SPDX-License-Identifier: Apache-2.0
// Messages between the work-groups of a cooperative launch, which all run at the same time. A message is three floats and
// its number in one 16-byte store, which arrives whole: a receiver needs neither a grid barrier nor a fence. OpenCL does not
// guarantee that work-groups run at the same time.

#ifdef ROADBED_CUDA
FUNCTION void send_message(uint4 *place, float x, float y, float z, uint number) {
    asm volatile("{\n\t.reg .b64 low, high;\n\t.reg .b128 message;\n\t"
                 "mov.b64 low, {%1, %2};\n\tmov.b64 high, {%3, %4};\n\tmov.b128 message, {low, high};\n\t"
                 "st.relaxed.gpu.b128 [%0], message;\n\t}"
                 :: "l"(place), "f"(x), "f"(y), "f"(z), "r"(number) : "memory");
}

// The message there now: three floats, and in `w` the bits of its number.
FUNCTION float4 peek_message(const uint4 *place) {
    float4 found;
    asm volatile("{\n\t.reg .b64 low, high;\n\t.reg .b128 message;\n\t"
                 "ld.relaxed.gpu.b128 message, [%4];\n\tmov.b128 {low, high}, message;\n\t"
                 "mov.b64 {%0, %1}, low;\n\tmov.b64 {%2, %3}, high;\n\t}"
                 : "=f"(found.x), "=f"(found.y), "=f"(found.z), "=f"(found.w) : "l"(place) : "memory");
    return found;
}

FUNCTION int has_number(float4 message, uint number) { return BITS_OF(message.w) == number; }

FUNCTION float4 receive_message(const uint4 *place, uint number) {
    float4 found = peek_message(place);
    while (!has_number(found, number)) found = peek_message(place);
    return found;
}

// Messages of different launches have different numbers. The 16 bytes before the first message count the launches so far
// (x) and the groups of this launch that have ended (y); the last group to end counts the launch.
#define NUMBERS_PER_LAUNCH 4096u
FUNCTION uint first_message_number(const uint4 *messages) { return messages[-1].x * NUMBERS_PER_LAUNCH; }
FUNCTION void end_launch(uint4 *messages) {
    __syncthreads();
    uint4 *launch = messages - 1;
    if (LOCAL_ID > 0 || atomicAdd(&launch->y, 1u) + 1u < (uint)GROUP_COUNT) return;
    launch->y = 0u;
    launch->x += 1u;
}
#endif
