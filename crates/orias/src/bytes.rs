//! Copying, filling and comparing bytes, for the C library musl.
//!
//! The command that is handed out is linked with musl, which starts four times faster than glibc: glibc asks the processor what it can do,
//! which is slow on a virtual machine. What glibc chooses by the answers are its functions for bytes, where musl has simple ones;
//! in a compiler that copies instructions and compares names, that is some percent of all time. So these four are our own. They use
//! what every x86-64 processor has, 16 bytes at a time, and treat the last bytes together with those before them instead of one by one.
//! No loop is found by the optimiser and replaced by a call of the function it is in, as they are written in assembly language.
#![allow(
    unsafe_code,
    reason = "the C library's names for these functions can only be given from here"
)]

use std::arch::global_asm;

/// The C library's names of a function, where it is to take the place of the library's.
#[cfg(target_env = "musl")]
macro_rules! instead_of {
    ($($name:literal),*) => { concat!($(".globl ", $name, "\n", $name, ":\n"),*) };
}
#[cfg(not(target_env = "musl"))]
macro_rules! instead_of {
    ($($name:literal),*) => {
        ""
    };
}

// `memmove`: everything that is read of 128 bytes or less is read before anything is written. More is copied forwards if the destination
// is below the source, else backwards, in aligned pieces of 64 bytes; what the pieces do not reach was read before the first piece.
global_asm!(
    ".section .text.orias_memmove,\"ax\",@progbits",
    ".globl orias_memmove",
    ".p2align 5",
    "orias_memmove:",
    instead_of!("memcpy", "memmove"),
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 20f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "cmp rdx, 32",
    "ja 30f",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "ret",
    // Up to 15 bytes.
    "20:",
    "cmp edx, 8",
    "jae 22f",
    "cmp edx, 4",
    "jae 23f",
    "cmp edx, 1",
    "jb 21f",
    "movzx ecx, byte ptr [rsi]",
    "je 24f",
    "movzx r8d, word ptr [rsi + rdx - 2]",
    "mov [rdi + rdx - 2], r8w",
    "24:",
    "mov [rdi], cl",
    "21:",
    "ret",
    "22:",
    "mov rcx, [rsi]",
    "mov r8, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], r8",
    "ret",
    "23:",
    "mov ecx, [rsi]",
    "mov r8d, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], r8d",
    "ret",
    // 33 bytes and more: the first 16 and the last 16 are read.
    "30:",
    "movups xmm2, [rsi + 16]",
    "movups xmm3, [rsi + rdx - 32]",
    "cmp rdx, 64",
    "ja 40f",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm2",
    "movups [rdi + rdx - 32], xmm3",
    "movups [rdi + rdx - 16], xmm1",
    "ret",
    // 65 bytes and more: the first 32 and the last 32 are read.
    "40:",
    "movups xmm4, [rsi + 32]",
    "movups xmm5, [rsi + 48]",
    "movups xmm6, [rsi + rdx - 64]",
    "movups xmm7, [rsi + rdx - 48]",
    "cmp rdx, 128",
    "ja 50f",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm2",
    "movups [rdi + 32], xmm4",
    "movups [rdi + 48], xmm5",
    "movups [rdi + rdx - 64], xmm6",
    "movups [rdi + rdx - 48], xmm7",
    "movups [rdi + rdx - 32], xmm3",
    "movups [rdi + rdx - 16], xmm1",
    "ret",
    // 129 bytes and more: the first 64 and the last 64 are read.
    "50:",
    "mov rcx, rsi",
    "sub rcx, rdi",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 60f",
    // Forwards: from the first aligned place to the last 64 bytes.
    "lea r8, [rdi + 16]",
    "and r8, -16",
    "lea r9, [rdi + rdx - 64]",
    ".p2align 4",
    "51:",
    "movups xmm8, [r8 + rcx]",
    "movups xmm9, [r8 + rcx + 16]",
    "movups xmm10, [r8 + rcx + 32]",
    "movups xmm11, [r8 + rcx + 48]",
    "movaps [r8], xmm8",
    "movaps [r8 + 16], xmm9",
    "movaps [r8 + 32], xmm10",
    "movaps [r8 + 48], xmm11",
    "add r8, 64",
    "cmp r8, r9",
    "jb 51b",
    "movups [rdi], xmm0",
    "movups [r9], xmm6",
    "movups [r9 + 16], xmm7",
    "movups [r9 + 32], xmm3",
    "movups [r9 + 48], xmm1",
    "ret",
    // Backwards: from the last aligned place to the first 64 bytes.
    "60:",
    "lea r8, [rdi + rdx - 1]",
    "and r8, -16",
    "lea r9, [rdi + 64]",
    ".p2align 4",
    "61:",
    "movups xmm8, [r8 + rcx - 16]",
    "movups xmm9, [r8 + rcx - 32]",
    "movups xmm10, [r8 + rcx - 48]",
    "movups xmm11, [r8 + rcx - 64]",
    "movaps [r8 - 16], xmm8",
    "movaps [r8 - 32], xmm9",
    "movaps [r8 - 48], xmm10",
    "movaps [r8 - 64], xmm11",
    "sub r8, 64",
    "cmp r8, r9",
    "ja 61b",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm2",
    "movups [rdi + 32], xmm4",
    "movups [rdi + 48], xmm5",
    "movups [rdi + rdx - 16], xmm1",
    "ret",
    ".text",
);

global_asm!(
    ".section .text.orias_memset,\"ax\",@progbits",
    ".globl orias_memset",
    ".p2align 5",
    "orias_memset:",
    instead_of!("memset"),
    "mov rax, rdi",
    "movzx esi, sil",
    "mov rcx, 0x0101010101010101",
    "imul rcx, rsi",
    "cmp rdx, 16",
    "jb 20f",
    "movq xmm0, rcx",
    "punpcklqdq xmm0, xmm0",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm0",
    "cmp rdx, 32",
    "jbe 30f",
    "movups [rdi + 16], xmm0",
    "movups [rdi + rdx - 32], xmm0",
    "cmp rdx, 64",
    "jbe 30f",
    // From the first aligned place to the last 64 bytes.
    "lea r8, [rdi + 16]",
    "and r8, -16",
    "lea r9, [rdi + rdx - 64]",
    "movups [r9], xmm0",
    "movups [r9 + 16], xmm0",
    "cmp r8, r9",
    "jae 30f",
    ".p2align 4",
    "31:",
    "movaps [r8], xmm0",
    "movaps [r8 + 16], xmm0",
    "movaps [r8 + 32], xmm0",
    "movaps [r8 + 48], xmm0",
    "add r8, 64",
    "cmp r8, r9",
    "jb 31b",
    "30:",
    "ret",
    // Up to 15 bytes.
    "20:",
    "cmp edx, 8",
    "jae 22f",
    "cmp edx, 4",
    "jae 23f",
    "cmp edx, 1",
    "jb 21f",
    "mov [rdi], cl",
    "je 21f",
    "mov [rdi + rdx - 2], cx",
    "21:",
    "ret",
    "22:",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], rcx",
    "ret",
    "23:",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], ecx",
    "ret",
    ".text",
);

// `memcmp`: the first piece that is not equal decides. Pieces of 8 or 4 bytes are compared as numbers whose first byte counts most.
global_asm!(
    ".section .text.orias_memcmp,\"ax\",@progbits",
    ".globl orias_memcmp",
    ".p2align 5",
    "orias_memcmp:",
    instead_of!("memcmp", "bcmp"),
    "cmp rdx, 16",
    "jb 20f",
    "lea r8, [rdx - 16]",
    "xor ecx, ecx",
    "11:",
    "movups xmm0, [rdi + rcx]",
    "movups xmm1, [rsi + rcx]",
    "pcmpeqb xmm0, xmm1",
    "pmovmskb eax, xmm0",
    "xor eax, 0xffff",
    "jne 12f",
    "add rcx, 16",
    "cmp rcx, r8",
    "jb 11b",
    // The last 16 bytes, some of which may have been compared.
    "mov rcx, r8",
    "movups xmm0, [rdi + rcx]",
    "movups xmm1, [rsi + rcx]",
    "pcmpeqb xmm0, xmm1",
    "pmovmskb eax, xmm0",
    "xor eax, 0xffff",
    "jne 12f",
    "ret",
    "12:",
    "bsf eax, eax",
    "add rcx, rax",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx ecx, byte ptr [rsi + rcx]",
    "sub eax, ecx",
    "ret",
    // Up to 15 bytes.
    "20:",
    "cmp edx, 8",
    "jb 30f",
    "mov rax, [rdi]",
    "mov rcx, [rsi]",
    "cmp rax, rcx",
    "jne 21f",
    "mov rax, [rdi + rdx - 8]",
    "mov rcx, [rsi + rdx - 8]",
    "cmp rax, rcx",
    "jne 21f",
    "xor eax, eax",
    "ret",
    "30:",
    "cmp edx, 4",
    "jb 40f",
    "mov eax, [rdi]",
    "mov ecx, [rsi]",
    "cmp eax, ecx",
    "jne 21f",
    "mov eax, [rdi + rdx - 4]",
    "mov ecx, [rsi + rdx - 4]",
    "cmp eax, ecx",
    "jne 21f",
    "xor eax, eax",
    "ret",
    "21:",
    "bswap rax",
    "bswap rcx",
    "cmp rax, rcx",
    "sbb eax, eax",
    "or eax, 1",
    "ret",
    "40:",
    "xor eax, eax",
    "test edx, edx",
    "je 41f",
    "movzx eax, byte ptr [rdi]",
    "movzx ecx, byte ptr [rsi]",
    "sub eax, ecx",
    "jne 41f",
    "cmp edx, 2",
    "jb 41f",
    "movzx eax, byte ptr [rdi + 1]",
    "movzx ecx, byte ptr [rsi + 1]",
    "sub eax, ecx",
    "jne 41f",
    "cmp edx, 3",
    "jb 41f",
    "movzx eax, byte ptr [rdi + 2]",
    "movzx ecx, byte ptr [rsi + 2]",
    "sub eax, ecx",
    "41:",
    "ret",
    ".text",
);

#[cfg(test)]
mod tests {
    use std::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn orias_memmove(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
        fn orias_memset(to: *mut c_void, byte: c_int, size: usize) -> *mut c_void;
        fn orias_memcmp(left: *const c_void, right: *const c_void, size: usize) -> c_int;
    }

    /// Sizes around everything that is treated apart.
    fn sizes() -> impl Iterator<Item = usize> {
        (0..300).chain([511, 512, 513, 1000, 4096, 5001])
    }

    /// Bytes that differ from their neighbours.
    fn pattern(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    /// Some bytes before and behind what a function may touch.
    const MARGIN: usize = 80;

    #[test]
    fn bytes_are_copied_wherever_source_and_destination_overlap() {
        for size in sizes() {
            for from in [MARGIN, MARGIN + 3, MARGIN + 16] {
                for to in (0..2 * MARGIN).step_by(if size < 300 { 1 } else { 13 }) {
                    let mut memory = pattern(size + 3 * MARGIN);
                    let mut expected = memory.clone();
                    expected.copy_within(from..from + size, to);
                    let start = memory.as_mut_ptr();
                    // SAFETY: both ranges lie in `memory`.
                    let result = unsafe {
                        orias_memmove(start.add(to).cast(), start.add(from).cast(), size)
                    };
                    assert_eq!(result.addr(), start.addr() + to);
                    assert!(memory == expected, "{size} bytes from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn bytes_are_filled_and_none_beside_them() {
        for size in sizes() {
            for at in MARGIN..MARGIN + 17 {
                let mut memory = pattern(size + 3 * MARGIN);
                let mut expected = memory.clone();
                expected[at..at + size].fill(0xa5);
                let start = memory.as_mut_ptr();
                // SAFETY: the range lies in `memory`. Only the lowest byte of the number counts.
                let result = unsafe { orias_memset(start.add(at).cast(), 0x7a5, size) };
                assert_eq!(result.addr(), start.addr() + at);
                assert!(memory == expected, "{size} bytes at {at}");
            }
        }
    }

    #[test]
    fn the_first_byte_that_differs_decides() {
        for size in sizes().filter(|&size| size < 600) {
            let left = pattern(size + 5);
            let compare = |right: &[u8]| {
                // SAFETY: both have at least that many bytes.
                unsafe { orias_memcmp(left.as_ptr().cast(), right.as_ptr().cast(), size) }.signum()
            };
            let mut right = left.clone();
            right[size..].fill(0xee);
            assert_eq!(compare(&right), 0, "{size} equal bytes");
            for at in 0..size {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut right = right.clone();
                    right[at] = value;
                    // What comes behind says the opposite.
                    right[at + 1..size].fill(if value < left[at] { 0xff } else { 0 });
                    let expected = left[..size].cmp(&right[..size]) as c_int;
                    assert_eq!(compare(&right), expected, "{value} at {at} of {size}");
                }
            }
        }
    }
}
