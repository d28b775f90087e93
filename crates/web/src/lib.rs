//! The library in WebAssembly, for the page: requests and answers of [`orias::view::call`] through three functions.
//!
//! **For:** the page of `web/`, which compiles and runs kernels in the browser.
//!
//! **May know:** `orias`.
//!
//! **Must never know:** what a request means.
//!
//! The page asks for room ([`orias_request`]), writes a request there as JSON in UTF-8, has it answered ([`orias_call`]) and reads the
//! answer ([`orias_answer`]). One request at a time: a page has one thread. There are no bindings to be generated, and nothing here
//! touches a pointer: the page does, from outside.

// Names that WebAssembly exports must be these, and Rust counts a promised name as unsafe. Nothing else here is.
#![allow(unsafe_code, reason = "exported names; there is no unsafe block")]

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The request that is being written, and the last answer.
static REQUEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn held(bytes: &'static Mutex<Vec<u8>>) -> MutexGuard<'static, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room for a request of so many bytes; where it is. It holds until the next call of this function.
#[unsafe(no_mangle)]
pub extern "C" fn orias_request(length: usize) -> *mut u8 {
    let mut request = held(&REQUEST);
    *request = vec![0; length];
    request.as_mut_ptr()
}

/// Answers the request that was written; how many bytes the answer has.
#[unsafe(no_mangle)]
pub extern "C" fn orias_call() -> usize {
    let request = std::mem::take(&mut *held(&REQUEST));
    let request = String::from_utf8_lossy(&request);
    let answer = orias::view::call(&request).into_bytes();
    let length = answer.len();
    *held(&ANSWER) = answer;
    length
}

/// Where the answer is. It holds until the next call of [`orias_call`].
#[unsafe(no_mangle)]
pub extern "C" fn orias_answer() -> *const u8 {
    held(&ANSWER).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_where_the_page_looks() {
        let request = br#"{"do": "knobs"}"#;
        assert!(!orias_request(request.len()).is_null());
        // As the page does, through the same room.
        held(&REQUEST).copy_from_slice(request);
        let length = orias_call();
        let answer = held(&ANSWER).clone();
        assert_eq!(answer.len(), length);
        assert!(answer.starts_with(br#"{"#) && !orias_answer().is_null());
        assert!(String::from_utf8(answer).unwrap().contains("\"ok\":true"));
    }
}
