//! Every point of the seed documents has exactly one answer in `docs/seed-coverage.md`.

/// The groups of points and how many each has.
const GROUPS: &[(&str, usize)] = &[
    ("SCH", 69),
    ("SCB", 34),
    ("MER", 33),
    ("SYN", 56),
    ("PST", 22),
];

#[test]
fn every_point_is_answered_once() {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/seed-coverage.md"
    ))
    .expect("the page exists");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| {
            line.starts_with("| ")
                && line.contains('-')
                && !line.starts_with("| id")
                && !line.starts_with("| ---")
        })
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let expected: Vec<String> = GROUPS
        .iter()
        .flat_map(|(group, count)| (1..=*count).map(move |n| format!("{group}-{n:02}")))
        .collect();
    let answered: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(answered, expected, "ids in order, each once");
    for row in &rows {
        assert_eq!(row.len(), 3, "{}: id, kind, answer", row[0]);
        assert!(!row[2].is_empty(), "{} has no answer", row[0]);
    }
}
