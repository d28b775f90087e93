//! Runs the text tests below `tests/`.
//!
//! **For:** one runner for every room: input, directives and expected text in one file, rewritten by `BLESS=1`.
//!
//! **May know:** the public functions of every room.
//!
//! **Must never know:** anything that is not public: a filetest is a bug report a user could have written.
