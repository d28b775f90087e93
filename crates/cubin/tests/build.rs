//! What the builder makes: it comes back from the file, it is laid out as ptxas does, and modules that cannot be are refused.

mod common;

use common::{SM_90, SM_90A, code, module, param, small_kernel};
use orias_cubin::attribute::{Value, id};
use orias_cubin::build::{Chip, CubinContents, Param};
use orias_cubin::{Body, Cubin, Extent, PrintOptions, SymbolPlace, print, to_json};

fn built(module: &CubinContents) -> Cubin {
    module.build().expect("a good module")
}

fn file(cubin: &Cubin) -> Vec<u8> {
    cubin.write().expect("a model that can be written")
}

/// What is known of a chip, by name.
fn chip(name: &str) -> Option<Chip> {
    match name {
        "sm_90" => Some(SM_90),
        "sm_90a" => Some(SM_90A),
        _ => None,
    }
}

#[test]
fn a_built_cubin_is_read_back_and_written_back() {
    let bytes = file(&built(&module()));
    let read = Cubin::read(&bytes).expect("our own file is readable");
    assert_eq!(file(&read), bytes);
}

#[test]
fn taking_a_cubin_apart_gives_the_module_it_was_built_from() {
    let module = module();
    let read = Cubin::read(&file(&built(&module))).expect("readable");
    let mut extracted = CubinContents::extract(&read, chip).expect("our own cubin");
    // What a file does not say: which tool made it is not taken over, how a variable is aligned is seen from where it lies, and how
    // far an initialiser reaches is no longer seen.
    extracted.tool.clone_from(&module.tool);
    let mut expected = module;
    extracted.globals.sort_by_key(|variable| {
        let order = ["pointer", "table", "counter"];
        order.iter().position(|name| *name == variable.name)
    });
    let mine = expected.globals.iter_mut().chain(&mut expected.constants);
    let theirs = extracted.globals.iter().chain(&extracted.constants);
    for (mine, theirs) in mine.zip(theirs) {
        mine.align = theirs.align;
        mine.initial.clone_from(&theirs.initial);
    }
    for function in &mut expected.functions {
        if let Some(entry) = &mut function.entry {
            entry.params_size = 12;
        }
    }
    for function in &mut extracted.functions {
        // Attributes that the builder adds by itself come back as if they had been asked for.
        function.attributes.retain(|attribute| {
            matches!(
                attribute.id,
                id::INDIRECT_BRANCH_TARGETS | id::CRS_STACK_SIZE
            )
        });
    }
    assert_eq!(extracted, expected);
}

#[test]
fn extracting_and_building_again_changes_nothing() {
    let first = file(&built(&module()));
    let again =
        CubinContents::extract(&Cubin::read(&first).expect("readable"), chip).expect("extractable");
    // Globals come back by section, so the first round may reorder symbols; from then on nothing moves.
    let second = file(&built(&again));
    let third = CubinContents::extract(&Cubin::read(&second).expect("readable"), chip)
        .expect("extractable");
    assert_eq!(file(&built(&third)), second);
}

#[test]
fn sections_come_in_the_order_of_ptxas() {
    let cubin = built(&module());
    let names: Vec<&str> = cubin
        .sections
        .iter()
        .map(|section| section.name.text.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "",
            ".shstrtab",
            ".strtab",
            ".symtab",
            ".debug_frame",
            ".note.nv.tkinfo",
            ".note.nv.cuinfo",
            ".nv.info",
            ".nv.compat",
            ".nv.info.small",
            ".nv.info.large",
            ".nv.info.callee",
            ".nv.callgraph",
            ".rela.text.callee",
            ".rela.nv.constant4",
            ".rela.nv.global.init",
            ".rela.debug_frame",
            ".nv.constant3",
            ".nv.constant4",
            ".nv.constant2.large",
            ".text.small",
            ".text.large",
            ".text.callee",
            ".nv.global.init",
            ".nv.shared.reserved.0",
            ".nv.global",
            ".nv.shared.large",
            ".nv.constant0.small",
            ".nv.constant0.large",
        ]
    );
}

#[test]
fn a_function_is_described_in_one_place() {
    let cubin = built(&module());
    let functions = cubin.functions();
    assert_eq!(functions.len(), 3);
    let large = &functions[1];
    assert_eq!((large.name, large.is_entry), ("large", true));
    assert_eq!(large.registers, Some(10));
    assert_eq!(large.barriers, Some(2));
    assert_eq!(large.frame_size, Some(64));
    assert_eq!(large.min_stack_size, Some(96));
    assert_eq!(large.shared_size, Some(0x400 + 100));
    assert_eq!(large.param_bank, Some((0x210, 12)));
    assert_eq!(large.params.len(), 2);
    assert_eq!((large.params[1].offset, large.params[1].size), (8, 4));
    assert_eq!(large.offsets(id::EXIT_INSTR_OFFSETS), [0x30]);
    assert_eq!(large.subroutines.len(), 1);
    let banks: Vec<(u32, usize)> = large
        .banks
        .iter()
        .map(|(bank, bytes)| (*bank, bytes.len()))
        .collect();
    assert_eq!(banks, [(2, 8), (0, 0x210 + 12)]);
    assert!(!functions[2].is_entry);
}

#[test]
fn attributes_of_a_kernel_come_in_the_order_of_ptxas() {
    let cubin = built(&module());
    let info = cubin.section(".nv.info.large").expect("the section");
    let ids: Vec<u8> = info
        .attributes()
        .expect("attributes")
        .iter()
        .map(|attribute| attribute.id)
        .collect();
    let order = [
        0x37, 0x17, 0x17, 0x3f, 0x3e, 0x3d, 0x50, 0x1b, 0x4c, 0x0f, 0x5f, 0x1c, 0x05, 0x10, 0x34,
        0x1e, 0x19, 0x0a, 0x36,
    ];
    assert_eq!(ids, order);
}

#[test]
fn large_parameters_take_the_wider_record() {
    let mut module = CubinContents::new(SM_90);
    let mut kernel = small_kernel("k");
    let params = |size: u16| vec![param(0, size)];
    for (size, wide) in [(4352, false), (4353, true)] {
        kernel.entry.as_mut().expect("a kernel").params = params(size);
        module.functions = vec![kernel.clone()];
        let cubin = built(&module);
        let view = &cubin.functions()[0];
        assert_eq!(view.params[0].size, size);
        let records = view
            .attributes
            .iter()
            .filter(|attribute| matches!(attribute.value, Value::WideParam(_)))
            .count();
        assert_eq!(records == 1, wide, "{size} bytes");
    }
}

#[test]
fn the_architecture_specific_target_is_told_apart_in_compat_only() {
    let target = |target| {
        let mut module = CubinContents::new(target);
        module.functions = vec![small_kernel("k")];
        built(&module)
    };
    let (plain, specific) = (target(SM_90), target(SM_90A));
    assert_eq!(plain.target(), "sm_90");
    assert_eq!(specific.target(), "sm_90a");
    assert_eq!(plain.header, specific.header);
    let differences = plain
        .sections
        .iter()
        .zip(&specific.sections)
        .filter(|(a, b)| a != b);
    let names: Vec<&str> = differences.map(|(a, _)| a.name.text.as_str()).collect();
    assert_eq!(names, [".nv.compat"]);
}

#[test]
fn the_file_says_that_orias_made_it() {
    let bytes = file(&built(&module()));
    let contains = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(contains(b"orias"));
    assert!(!contains(b"ptxas"));
}

#[test]
fn modules_that_contradict_themselves_are_refused_by_name() {
    let refuse = |change: fn(&mut CubinContents), message: &str| {
        let mut module = module();
        change(&mut module);
        let error = module.build().expect_err(message);
        assert_eq!(error.to_string(), message);
    };
    refuse(
        |module| module.functions[0].name = "large".to_owned(),
        "the name 'large' is used twice",
    );
    refuse(
        |module| module.functions[0].name.clear(),
        "'' is not a name",
    );
    refuse(
        |module| module.functions[0].code.truncate(17),
        "small: the size of the code 0x11 is not a multiple of 16",
    );
    refuse(
        |module| module.functions[0].registers = 256,
        "small: the register count is 256, the limit is 255",
    );
    refuse(
        |module| module.functions[0].exits = vec![0x80],
        "small: an exit's offset is 128, the limit is 112",
    );
    refuse(
        |module| module.functions[0].exits = vec![8],
        "small: an exit's offset 0x8 is not a multiple of 16",
    );
    refuse(
        |module| {
            let entry = module.functions[0].entry.as_mut();
            entry.expect("a kernel").params[1].offset = 4;
        },
        "small: parameter 0 and parameter 1 overlap",
    );
    refuse(
        |module| module.addresses[0].symbol = "nowhere".to_owned(),
        "bank 4 refers to 'nowhere', which is not in the module",
    );
    refuse(
        |module| module.globals[1].offset = 4,
        "pointer and table overlap",
    );
    refuse(
        |module| module.constants[0].initial = Some(vec![0; 9]),
        "weights: the initialiser's size is 9, the limit is 8",
    );
    refuse(
        |module| module.calls[1].1 = "nobody".to_owned(),
        "large refers to 'nobody', which is not in the module",
    );
}

#[test]
fn an_edited_model_keeps_its_references() {
    let mut cubin = built(&module());
    let before = cubin.functions()[1].params.clone();
    let note = cubin.section_index(".note.nv.tkinfo").expect("the note");
    cubin.remove_section(note);
    let reread = Cubin::read(&file(&cubin)).expect("readable");
    let functions = reread.functions();
    assert_eq!(functions[1].name, "large");
    assert_eq!(functions[1].params, before);
    assert_eq!(functions[1].registers, Some(10));
    for symbol in reread.symbols() {
        if let SymbolPlace::Section(section) = symbol.place
            && symbol.kind == orias_cubin::elf::stt::SECTION
        {
            let section = &reread.sections[usize::from(section)];
            assert_eq!(symbol.name.text, section.name.text);
        }
    }
    let relocations = reread
        .sections
        .iter()
        .filter(|section| matches!(section.body, Body::Relocations(_)));
    for section in relocations {
        let target = &reread.sections[section.info as usize];
        let expected = section.name.text.strip_prefix(".rela");
        assert_eq!(expected, Some(target.name.text.as_str()));
    }
    for segment in &reread.segments {
        assert!(!matches!(segment.extent, Extent::Range { .. }));
    }
}

#[test]
fn a_name_that_is_new_to_a_file_is_added_to_its_table() {
    let mut cubin = Cubin::read(&file(&built(&module()))).expect("readable");
    let symbols = cubin.symbols_mut().expect("symbols");
    let kernel = symbols
        .iter_mut()
        .find(|symbol| symbol.name.text == "small")
        .expect("the kernel");
    kernel.name = "renamed".into();
    let reread = Cubin::read(&file(&cubin)).expect("readable");
    assert_eq!(reread.functions()[0].name, "renamed");
}

#[test]
fn the_printed_form_names_what_numbers_mean() {
    let text = print(&built(&module()), PrintOptions::default());
    for line in [
        "cubin for sm_90a: executable (type 2), OS ABI 0x41, ABI version 8, flags 0x06005a04 (ordinary code)",
        "kernel large: 256 bytes of code, 10 registers, 2 barriers, 0x464 bytes of shared memory, 64 bytes of stack",
        "  parameters: 12 bytes at c[0x0][0x210]",
        "  REGCOUNT                           large: 10",
        "  INDIRECT_BRANCH_TARGETS            branch at 0x20 to 0x30 0x40",
        "  PARAM_CBANK                        .nv.constant0.large + 0x210, 12 bytes",
        "  large calls callee",
        "  large calls malloc",
        "  EXTERNS                            malloc",
        "        10 R_CUDA_ABS32_LO_32       table +0x4",
        "    tool       orias",
    ] {
        assert!(text.lines().any(|one| one == line), "{line:?} in\n{text}");
    }
}

#[test]
fn json_says_the_same() {
    let json = to_json(&built(&module()));
    assert_eq!(json["target"], "sm_90a");
    assert_eq!(json["functions"][1]["name"], "large");
    assert_eq!(json["functions"][1]["params"][1]["offset"], 8);
    assert_eq!(json["sections"][20]["name"], ".text.small");
}

#[test]
fn a_parameter_says_what_it_points_to() {
    let mut module = CubinContents::new(SM_90);
    let mut kernel = small_kernel("k");
    kernel.code = code(4);
    kernel.entry.as_mut().expect("a kernel").params = vec![Param {
        offset: 0,
        size: 8,
        pointee_log_align: 4,
        space: 4,
    }];
    module.functions = vec![kernel];
    let cubin = built(&module);
    let param = cubin.functions()[0].params[0];
    assert_eq!((param.pointee_log_align, param.space), (4, 4));
}
