//! Small changes to programs, some harmless, most not.

use orias_generate::synth::Random;
use orias_ptx::lex::{Lexer, Token, TokenKind};
use orias_ptx::types::Type;

/// `count` changed programs, in rounds over all seeds. What becomes of a seed in a round depends only on `choice`, so that
/// verdicts stay known when seeds are added.
pub fn mutants(seeds: &[String], count: usize, choice: u64) -> Vec<String> {
    let choice = choice.wrapping_mul(orias_random::GOLDEN_RATIO);
    let mut programs = Vec::with_capacity(count);
    let mut round = 0;
    while programs.len() < count && !seeds.is_empty() && round < count as u64 {
        for seed in seeds {
            let mut random = Random::new(super::verdict::hash(seed) ^ (round << 48) ^ choice);
            let mutation = MUTATIONS[random.below(MUTATIONS.len())];
            if let Some(program) = mutation(seed, &mut random)
                && program != *seed
                && programs.len() < count
            {
                programs.push(program);
            }
        }
        round += 1;
    }
    programs
}

/// The part of a program worth showing: everything but the fixed frame.
pub fn excerpt(program: &str) -> String {
    let shown: Vec<&str> = program
        .lines()
        .filter(|line| {
            !matches!(
                line.trim(),
                ".version 9.0" | ".target sm_90a" | ".address_size 64" | "{" | "}" | "ret;"
            ) && !line.contains(".b8 gvar[128]")
                && !line.contains(".b8 svar[128]")
                && !line.contains(".b8 cvar[128]")
                && !line.contains(".b8 lvar[64]")
                && !line.contains(".b8 outbytes[64]")
                && !line.contains(".b64 in64, .param .align 16 .b8 inbytes[64])")
        })
        .collect();
    shown.join("\n")
}

type Mutation = fn(&str, &mut Random) -> Option<String>;

/// Each way to change a program; what stands twice is chosen twice as often.
const MUTATIONS: &[Mutation] = &[
    drop_token,
    double_token,
    swap_tokens,
    exchange_modifier,
    exchange_modifier,
    exchange_type,
    drop_modifier,
    add_modifier,
    move_modifier,
    move_modifier,
    move_modifier,
    retype_register,
    retype_register,
    retype_wider,
    retype_wider,
    retype_wider,
    exchange_operand,
    exchange_operand,
    exchange_operand,
    swap_operands,
    swap_operands,
    swap_operands,
    change_number,
    change_number,
    change_number,
    change_version,
    change_target,
    add_guard,
    add_scope,
    add_directive,
];

fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer::new(text.as_bytes());
    let mut found = Vec::new();
    loop {
        let token = lexer.next_token();
        if token.kind == TokenKind::End {
            return found;
        }
        found.push(token);
    }
}

fn of<'t>(text: &'t str, token: &Token) -> &'t str {
    &text[token.start as usize..token.end as usize]
}

/// The text with the bytes of a token replaced.
fn replaced(text: &str, token: &Token, by: &str) -> String {
    format!(
        "{}{by}{}",
        &text[..token.start as usize],
        &text[token.end as usize..]
    )
}

/// Where the statement under test starts and ends: the last line of the body in front of labels and `ret`.
fn statement(text: &str) -> Option<(u32, u32)> {
    let end = text.rfind("\n\tret;")?;
    let mut start = text[..end].rfind('\n').map_or(0, |at| at + 1);
    let mut stop = end;
    while text[start..stop].trim().ends_with(':') {
        stop = start.checked_sub(1)?;
        start = text[..stop].rfind('\n').map_or(0, |at| at + 1);
    }
    Some((start as u32, stop as u32))
}

fn statement_tokens(text: &str) -> Option<Vec<Token>> {
    let (start, stop) = statement(text)?;
    let inside = |token: &Token| token.start >= start && token.end <= stop;
    let found: Vec<Token> = tokens(text).into_iter().filter(inside).collect();
    (!found.is_empty()).then_some(found)
}

fn pick<'l, T>(list: &'l [T], random: &mut Random) -> Option<&'l T> {
    (!list.is_empty()).then(|| &list[random.below(list.len())])
}

fn drop_token(text: &str, random: &mut Random) -> Option<String> {
    let tokens = statement_tokens(text)?;
    Some(replaced(text, pick(&tokens, random)?, " "))
}

fn double_token(text: &str, random: &mut Random) -> Option<String> {
    let tokens = statement_tokens(text)?;
    let token = pick(&tokens, random)?;
    let glue = if token.kind == TokenKind::Dotted {
        ""
    } else {
        " "
    };
    let word = of(text, token);
    Some(replaced(text, token, &format!("{word}{glue}{word}")))
}

fn swap_tokens(text: &str, random: &mut Random) -> Option<String> {
    let tokens = statement_tokens(text)?;
    let at = random.below(tokens.len().checked_sub(1)?);
    let (a, b) = (&tokens[at], &tokens[at + 1]);
    Some(format!(
        "{}{}{}{}{}",
        &text[..a.start as usize],
        of(text, b),
        &text[a.end as usize..b.start as usize],
        of(text, a),
        &text[b.end as usize..]
    ))
}

fn modifiers(text: &str) -> Option<Vec<Token>> {
    let found: Vec<Token> = statement_tokens(text)?
        .into_iter()
        .filter(|token| token.kind == TokenKind::Dotted)
        .collect();
    (!found.is_empty()).then_some(found)
}

/// Modifiers that many instructions have.
pub const MODIFIERS: &[&str] = &[
    "ftz",
    "sat",
    "rn",
    "rz",
    "rm",
    "rp",
    "rni",
    "lo",
    "hi",
    "wide",
    "sync",
    "aligned",
    "global",
    "shared",
    "shared::cta",
    "local",
    "const",
    "param",
    "relaxed",
    "acquire",
    "release",
    "volatile",
    "weak",
    "gpu",
    "sys",
    "cta",
    "cluster",
    "v2",
    "v4",
    "eq",
    "lt",
    "ge",
    "and",
    "or",
    "xor",
    "add",
    "min",
    "max",
    "cas",
    "exch",
    "nc",
    "ca",
    "cg",
    "cs",
    "cv",
    "wb",
    "wt",
    "L2::cache_hint",
    "L2::128B",
    "L1::no_allocate",
    "approx",
    "full",
    "relu",
    "noftz",
    "cc",
    "uni",
    "to",
    "b32",
    "b64",
    "idx",
    "bfly",
    "row",
    "col",
    "trans",
    "x2",
    "x4",
];

fn any_modifier(random: &mut Random) -> String {
    format!(".{}", MODIFIERS[random.below(MODIFIERS.len())])
}

fn any_type(random: &mut Random) -> String {
    const COMMON: &[Type] = &[
        Type::U16,
        Type::U32,
        Type::U64,
        Type::S16,
        Type::S32,
        Type::S64,
        Type::B8,
        Type::B16,
        Type::B32,
        Type::B64,
        Type::F16,
        Type::F16x2,
        Type::F32,
        Type::F64,
        Type::Bf16,
        Type::Bf16x2,
        Type::U8,
        Type::S8,
        Type::Pred,
        Type::B128,
        Type::Tf32,
    ];
    COMMON[random.below(COMMON.len())].to_string()
}

fn exchange_modifier(text: &str, random: &mut Random) -> Option<String> {
    let modifiers = modifiers(text)?;
    let by = any_modifier(random);
    Some(replaced(text, pick(&modifiers, random)?, &by))
}

fn exchange_type(text: &str, random: &mut Random) -> Option<String> {
    let types: Vec<Token> = modifiers(text)?
        .into_iter()
        .filter(|token| Type::from_name(&of(text, token)[1..]).is_some())
        .collect();
    let by = any_type(random);
    Some(replaced(text, pick(&types, random)?, &by))
}

fn drop_modifier(text: &str, random: &mut Random) -> Option<String> {
    let modifiers = modifiers(text)?;
    Some(replaced(text, pick(&modifiers, random)?, ""))
}

fn add_modifier(text: &str, random: &mut Random) -> Option<String> {
    let modifiers = modifiers(text)?;
    let token = pick(&modifiers, random)?;
    let extra = any_modifier(random);
    let both = format!("{}{extra}", of(text, token));
    Some(replaced(text, token, &both))
}

fn move_modifier(text: &str, random: &mut Random) -> Option<String> {
    let modifiers = modifiers(text)?;
    let from = pick(&modifiers, random)?;
    let to = pick(&modifiers, random)?;
    if from.start == to.start {
        return None;
    }
    let word = of(text, from).to_owned();
    let (first, second) = if from.start < to.start {
        (replaced(text, to, &format!("{}{word}", of(text, to))), from)
    } else {
        (replaced(text, from, ""), to)
    };
    Some(if from.start < to.start {
        replaced(&first, second, "")
    } else {
        replaced(&first, second, &format!("{word}{}", of(text, to)))
    })
}

fn register_types(text: &str) -> Vec<Token> {
    let tokens = tokens(text);
    tokens
        .windows(2)
        .filter(|pair| of(text, &pair[0]) == ".reg" && pair[1].kind == TokenKind::Dotted)
        .map(|pair| pair[1])
        .collect()
}

fn retype_register(text: &str, random: &mut Random) -> Option<String> {
    let types = register_types(text);
    let by = any_type(random);
    Some(replaced(text, pick(&types, random)?, &by))
}

/// A register of the same size and another class, which is often still right.
fn retype_wider(text: &str, random: &mut Random) -> Option<String> {
    let types = register_types(text);
    let token = pick(&types, random)?;
    let bits = Type::from_name(&of(text, token)[1..])?.bits();
    let same: Vec<&Type> = [
        Type::B16,
        Type::U16,
        Type::S16,
        Type::F16,
        Type::B32,
        Type::U32,
        Type::S32,
        Type::F32,
        Type::B64,
        Type::U64,
        Type::S64,
        Type::F64,
    ]
    .iter()
    .filter(|ty| ty.bits() == bits)
    .collect::<Vec<_>>()
    .into_iter()
    .map(|ty| &Type::ALL[*ty as usize])
    .collect();
    let by = pick(&same, random)?.to_string();
    Some(replaced(text, token, &by))
}

/// Names and numbers of the statement, without its opcode and guard.
fn operands(text: &str) -> Option<Vec<Token>> {
    let tokens = statement_tokens(text)?;
    let opcode = tokens
        .iter()
        .position(|token| token.kind == TokenKind::Dotted)
        .unwrap_or(0);
    let found: Vec<Token> = tokens[opcode..]
        .iter()
        .copied()
        .filter(|token| {
            matches!(
                token.kind,
                TokenKind::Word | TokenKind::Integer | TokenKind::Float
            )
        })
        .collect();
    (!found.is_empty()).then_some(found)
}

fn exchange_operand(text: &str, random: &mut Random) -> Option<String> {
    let operands = operands(text)?;
    let token = *pick(&operands, random)?;
    const OTHERS: &[&str] = &[
        "0",
        "1",
        "-1",
        "16",
        "31",
        "0x7f",
        "1.0",
        "0f3F800000",
        "0d3FF0000000000000",
        "_",
        "%tid.x",
        "%laneid",
        "%clock64",
        "WARP_SZ",
        "gvar",
        "svar",
        "k",
        "sample",
        "unknown",
        "%extra0",
        "%extra1",
        "%extra2",
        "%extra3",
        "%extra4",
        "%extra5",
        "%extra6",
        "{%extra1}",
        "{%extra1, %extra1}",
        "[%extra2]",
        "!%extra0",
        "-%extra1",
        "%extra1+4",
        "(1+3)*2",
        "5000000000",
        "99999999999999999999",
        "1U",
        "0b101",
        "017",
        "-%tid.x",
        "%nosuch",
    ];
    let by = if random.below(3) == 0 {
        of(text, pick(&operands, random)?).to_owned()
    } else {
        OTHERS[random.below(OTHERS.len())].to_owned()
    };
    let changed = replaced(text, &token, &by);
    if !by.contains("%extra") {
        return Some(changed);
    }
    let body = changed.find("\n{\n")? + 3;
    Some(format!(
        "{}\t.reg .pred %extra0;\n\t.reg .b32 %extra1;\n\t.reg .b64 %extra2;\n\t.reg .f32 %extra3;\n\t.reg .b16 %extra4;\n\t.reg .f64 %extra5;\n\t.reg .u32 %extra6;\n{}",
        &changed[..body],
        &changed[body..]
    ))
}

fn swap_operands(text: &str, random: &mut Random) -> Option<String> {
    let operands = operands(text)?;
    let (a, b) = (*pick(&operands, random)?, *pick(&operands, random)?);
    let (a, b) = if a.start < b.start { (a, b) } else { (b, a) };
    if a.start == b.start {
        return None;
    }
    let second = replaced(text, &b, of(text, &a));
    Some(replaced(&second, &a, of(text, &b)))
}

fn change_number(text: &str, random: &mut Random) -> Option<String> {
    let numbers: Vec<Token> = tokens(text)
        .into_iter()
        .skip(6)
        .filter(|token| token.kind == TokenKind::Integer)
        .collect();
    const OTHERS: &[&str] = &[
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "7",
        "8",
        "16",
        "17",
        "31",
        "32",
        "64",
        "100",
        "128",
        "256",
        "1023",
        "4096",
        "65536",
        "-1",
        "-8",
        "0xFF",
        "2147483648",
        "1+1",
        "(2)",
        "1.5",
    ];
    let by = OTHERS[random.below(OTHERS.len())];
    Some(replaced(text, pick(&numbers, random)?, by))
}

fn change_version(text: &str, random: &mut Random) -> Option<String> {
    const VERSIONS: &[&str] = &[
        "1.4", "2.0", "3.2", "4.0", "5.0", "6.0", "6.3", "6.4", "7.0", "7.1", "7.4", "7.8", "8.0",
        "8.1", "8.2", "8.3", "8.4", "8.5", "8.6", "8.7", "8.8", "8.9", "9.1",
    ];
    let by = VERSIONS[random.below(VERSIONS.len())];
    Some(text.replacen(".version 9.0", &format!(".version {by}"), 1))
}

fn change_target(text: &str, random: &mut Random) -> Option<String> {
    const TARGETS: &[&str] = &[
        "sm_30",
        "sm_53",
        "sm_60",
        "sm_61",
        "sm_70",
        "sm_72",
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_89",
        "sm_90",
        "sm_90",
        "sm_80",
        "sm_75",
        "sm_91",
        "sm_100",
        "sm_100a",
        "compute_90",
    ];
    let by = TARGETS[random.below(TARGETS.len())];
    Some(text.replacen(".target sm_90a", &format!(".target {by}"), 1))
}

fn add_guard(text: &str, random: &mut Random) -> Option<String> {
    let (start, _) = statement(text)?;
    let at = start as usize;
    let guard = ["@%g ", "@!%g ", "@%g @%g ", "@ ", "@%h "][random.below(5)];
    Some(format!(
        "{}\t.reg .pred %g;\n\t.reg .b32 %h;\n{guard}{}",
        &text[..at],
        &text[at..]
    ))
}

fn add_scope(text: &str, random: &mut Random) -> Option<String> {
    let (start, stop) = statement(text)?;
    let (before, inside, after) = (
        &text[..start as usize],
        &text[start as usize..stop as usize],
        &text[stop as usize..],
    );
    Some(match random.below(5) {
        0 => format!("{before}{{{inside}}}{after}"),
        1 => format!("{before}{{{inside}{after}"),
        2 => format!("{before}{inside}}}{after}"),
        3 => format!("{before}here: {inside}\n\tbra here;{after}"),
        _ => format!("{before}here: {inside}\n\tbra there;{after}"),
    })
}

fn add_directive(text: &str, random: &mut Random) -> Option<String> {
    const HEADS: &[&str] = &[
        ".maxntid 128",
        ".maxntid 0",
        ".maxntid 1024, 1, 1",
        ".reqntid 32",
        ".maxnreg 64",
        ".minnctapersm 2",
        ".maxntid 32 .reqntid 32",
        ".noreturn",
        ".explicitcluster",
        ".reqnctapercluster 2",
        ".maxclusterrank 4",
        ".blocksareclusters",
        ".pragma \"nounroll\";",
        ".maxntid",
        ".unknown",
    ];
    const MODULE: &[&str] = &[
        ".global .u32 more = 1;",
        ".global .u32 more = 1.0;",
        ".global .f32 more[2] = {1.0, 2.0};",
        ".global .u32 more[2] = {1, 2, 3};",
        ".shared .b8 more[400000];",
        ".extern .shared .b8 more[];",
        ".global .b8 more[];",
        ".const .u32 more = 5;",
        ".global .align 3 .b8 more;",
        ".func more() { ret; }",
        ".global .u64 more = gvar;",
        ".global .pred more;",
        ".global .v4 .f32 more;",
        ".local .u32 more;",
        ".file 1 \"a.cu\"",
        ".weak .global .u32 more;",
        ".global .u32 more; .global .u32 more;",
    ];
    let entry = text.find(".visible .entry")?;
    if random.below(2) == 0 {
        let extra = MODULE[random.below(MODULE.len())];
        return Some(format!("{}{extra}\n{}", &text[..entry], &text[entry..]));
    }
    let body = entry + text[entry..].find("\n{\n")?;
    let extra = HEADS[random.below(HEADS.len())];
    Some(format!("{} {extra}{}", &text[..body], &text[body..]))
}
