//! The named checks a row may ask for with `check NAME`; each is a function in `src/check/named.rs`.

/// Every name, with what it protects.
pub const CHECKS: &[(&str, &str)] = &[
    (
        "texture_mode",
        "a texture instruction names a sampler in independent mode and only there",
    ),
    (
        "vector_bytes",
        "a vector access moves at most 16 bytes, or 32 where the target allows it",
    ),
    ("copy_source", "a copy reads no more bytes than it writes"),
    (
        "policy_fraction",
        "the part of the accesses that a cache policy is for is above 0 and at most 1",
    ),
    (
        "policy_sizes",
        "what a cache policy treats first is no larger than all that it treats",
    ),
    (
        "named_space",
        "a variable whose address is converted is in the space that the instruction names",
    ),
    (
        "array_index",
        "the first coordinate of a texture array is an integer",
    ),
];
