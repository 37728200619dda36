//! Settings of the C library's allocator. Rust's allocator is a thin layer over it.
//!
//! In place of musl's allocator, which takes a lock for each block, mimalloc is linked: a handshake costs a sixth less
//! CPU, and pages can be handed back.

/// Makes the allocator give large blocks back as soon as they are freed.
///
/// glibc raises its threshold for blocks of their own to the largest one that was freed so far, up
/// to 32 MiB, and lowers it never: from the first histogram (200 kB) on, large tables would be
/// carved out of heaps, where they leave holes when they grow, and where zeroed memory is zeroed
/// by writing to it. Call it before the first large block is freed.
pub fn keep_large_blocks_apart() {
    // SAFETY: mallopt takes numbers only; this parameter's is a size in bytes.
    #[cfg(target_env = "gnu")]
    unsafe {
        // Setting it, even to its default, is what stops it from moving.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 * 1024);
    }
}

/// Hands unused heap pages back to the kernel: with glibc the pages of all threads, with mimalloc those of this thread.
/// Takes about 1 ms for each 10 MB of heap: not for a busy loop.
pub fn give_back_unused() {
    // SAFETY: malloc_trim changes nothing that a program can see, on any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
    // SAFETY: mi_collect changes nothing that a program can see, and only on this thread.
    #[cfg(target_env = "musl")]
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}
