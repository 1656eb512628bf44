// One thread that writes down when it ran: nanoseconds of the device, clock cycles of its multiprocessor, and which
// multiprocessor that was. Two such stamps around a block give the mean clock of the SMs inside it, as nvbench takes it.
// PTX ISA, "Special registers": %globaltimer, %smid; CUDA C++ Programming Guide, "Time function": clock64.

extern "C" __global__ void stamp(unsigned long long* marks, int slot) {
    unsigned long long nanoseconds;
    unsigned int multiprocessor;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    const unsigned long long cycles = clock64();
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    marks[3 * slot] = nanoseconds;
    marks[3 * slot + 1] = cycles;
    marks[3 * slot + 2] = multiprocessor;
}
