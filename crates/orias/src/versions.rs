//! The versions that clients ask for.

/// The release of ptxas whose place Orias takes: major, minor, build.
pub const PTXAS: (u32, u32, u32) = (13, 0, 88);

/// The PTX versions there are, up to that of [`PTXAS`]: a major version and its minor ones.
const PTX: &[(u32, &[u32])] = &[
    (1, &[0, 1, 2, 3, 4, 5]),
    (2, &[0, 1, 2, 3]),
    (3, &[0, 1, 2]),
    (4, &[0, 1, 2, 3]),
    (5, &[0, 1]),
    (6, &[0, 1, 2, 3, 4, 5]),
    (7, &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
    (8, &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
    (9, &[0]),
];

/// The PTX versions that are understood, major and minor, in ascending order.
pub fn ptx() -> impl ExactSizeIterator<Item = (u32, u32)> {
    let all: Vec<(u32, u32)> = PTX
        .iter()
        .flat_map(|&(major, minors)| minors.iter().map(move |&minor| (major, minor)))
        .collect();
    all.into_iter()
}
