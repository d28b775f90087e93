//! Leaving one thing out: each omission takes away what it names and nothing else.

mod common;

use std::collections::BTreeSet;

use common::module;
use orias_cubin::attribute::id;
use orias_cubin::omit::{Omission, SectionField};
use orias_cubin::{Body, Cubin};

fn sample() -> Cubin {
    module().build().expect("a good module")
}

#[test]
fn every_omission_has_a_name_of_its_own_and_changes_the_file() {
    let cubin = sample();
    let whole = cubin.write().expect("writable");
    let mut names = BTreeSet::new();
    for omission in Omission::all(&cubin) {
        assert!(
            names.insert(omission.to_string()),
            "{omission} is listed twice"
        );
        let file = omission.apply(&cubin).expect("writable");
        assert_ne!(file, whole, "{omission} leaves nothing out");
    }
    for expected in [
        "header e_flags",
        "section .nv.compat",
        "section .strtab",
        "attribute EXIT_INSTR_OFFSETS of .nv.info.large",
        "attribute ISA_CLASS of .nv.compat",
        "sh_info of section .text.small",
        "relocations in .rela.nv.constant4",
        "entries of .nv.callgraph",
        "program header 0",
        "all program headers",
    ] {
        assert!(names.contains(expected), "{expected}");
    }
    let is_kernel = |name: &&String| name.starts_with("st_other of symbol");
    assert_eq!(names.iter().filter(is_kernel).count(), 2, "two kernels");
}

#[test]
fn what_stays_is_still_readable_and_complete() {
    let cubin = sample();
    for omission in Omission::all(&cubin) {
        if matches!(omission, Omission::HeaderField(_)) {
            continue;
        }
        let file = omission.apply(&cubin).expect("writable");
        let reread = match Cubin::read(&file) {
            Ok(reread) => reread,
            // Without its string table or its link, a symbol table cannot be read.
            Err(_) => {
                let text = omission.to_string();
                assert!(
                    text.contains("strtab") || text.contains("sh_link of section .symtab"),
                    "{omission}"
                );
                continue;
            }
        };
        let sections = match &omission {
            Omission::Section(name) => {
                // A section goes with its relocations.
                let target = cubin.section_index(name).expect("it was there") as u32;
                let relocations = cubin.sections.iter().filter(|section| {
                    matches!(section.body, Body::Relocations(_)) && section.info == target
                });
                cubin.sections.len() - 1 - relocations.count()
            }
            _ => cubin.sections.len(),
        };
        assert_eq!(reread.sections.len(), sections, "{omission}");
    }
}

#[test]
fn an_attribute_goes_alone() {
    let cubin = sample();
    let omission = Omission::all(&cubin)
        .into_iter()
        .find(|omission| omission.to_string() == "attribute EXIT_INSTR_OFFSETS of .nv.info.large")
        .expect("it is listed");
    let reread = Cubin::read(&omission.apply(&cubin).expect("writable")).expect("readable");
    let count = |cubin: &Cubin, name: &str| {
        let section = cubin.section(name).expect("the section");
        section.attributes().expect("attributes").len()
    };
    assert_eq!(
        count(&reread, ".nv.info.large") + 1,
        count(&cubin, ".nv.info.large")
    );
    assert_eq!(
        count(&reread, ".nv.info.small"),
        count(&cubin, ".nv.info.small")
    );
    assert!(
        reread.functions()[1]
            .offsets(id::EXIT_INSTR_OFFSETS)
            .is_empty()
    );
}

#[test]
fn a_sections_type_becomes_plain_bytes() {
    let cubin = sample();
    let omission = Omission::SectionField {
        section: ".nv.info".to_owned(),
        field: SectionField::Type,
    };
    let reread = Cubin::read(&omission.apply(&cubin).expect("writable")).expect("readable");
    let section = reread.section(".nv.info").expect("the section");
    assert!(matches!(section.body, Body::Bytes(_)));
}
