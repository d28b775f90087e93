//! The readers and their promises, by room.

mod command;
mod cubin;
mod ori;
mod ptx;
mod sass;
mod view;

/// A reader of outside text or bytes.
pub struct Target {
    /// Its name, and that of its program below `fuzz/fuzz_targets/`.
    pub name: &'static str,
    /// Good inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something to it.
    pub words: &'static [&'static str],
    /// Panics when the reader breaks its promise on `input`.
    pub check: fn(input: &[u8]),
}

/// Every reader there is.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    [
        command::TARGETS,
        ptx::TARGETS,
        ori::TARGETS,
        sass::TARGETS,
        cubin::TARGETS,
        view::TARGETS,
    ]
    .into_iter()
    .flatten()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
