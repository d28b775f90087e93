//! Every mutant of where lanes meet is reported, in code where each such instruction matters.

use orias_sass::Target;
use orias_sass::text::assemble;
use orias_verify::judge_program;
use orias_verify::mutate::convergence::mutations;
use orias_verify::program::Program;

/// Two regions, one inside the other and left by BREAK, a warp that gathers, and lanes that gather for one operation.
const LISTING: &str = "
.kernel lanes
[B------:R-:W0:-:S02] S2R R0, SR_TID.X ;
[B0-----:R-:W-:-:S15] ISETP.NE.AND P0, PT, R0, RZ, PT ;
[B------:R-:W-:-:S15] ISETP.NE.AND P1, PT, R0, 0x1, PT ;
[B------:R-:W-:-:S15] UMOV UR4, 0xffffffff ;
[B------:R-:W-:-:S15] BSSY B0, `(.L_behind) ;
[B------:R-:W-:-:S15] BSSY B1, `(.L_inner_behind) ;
[B------:R-:W-:-:S15] @P0 BREAK B1 ;
[B------:R-:W-:-:S15] @P0 BRA `(.L_join) ;
[B------:R-:W-:-:S15] @P1 BRA `(.L_inner) ;
[B------:R-:W-:-:S15] MOV R5, RZ ;
.L_inner:
[B------:R-:W-:-:S15] BSYNC B1 ;
.L_inner_behind:
[B------:R-:W-:-:S15] MOV R6, RZ ;
.L_join:
[B------:R-:W-:-:S15] BSYNC B0 ;
.L_behind:
[B------:R-:W1:-:S02] SHFL.BFLY PT, R4, R5, 0x10, 0x1f ;
[B-1----:R-:W-:-:S15] @P1 BRA `(.L_second) ;
[B------:R-:W-:-:S15] MOV R5, RZ ;
.L_second:
[B------:R-:W-:-:S15] WARPSYNC.ALL ;
[B------:R-:W-:-:S15] BAR.SYNC.DEFER_BLOCKING 0x0 ;
[B------:R-:W-:-:S15] @P1 BRA `(.L_third) ;
[B------:R-:W-:-:S15] MOV R5, RZ ;
.L_third:
[B------:R-:W-:-:S15] BRA.DIV UR4, `(.L_apart) ;
[B------:R-:W1:-:S15] SHFL.BFLY PT, R4, R5, 0x10, 0x1f ;
.L_back:
[B-1----:R-:W-:-:S15] EXIT ;
.L_apart:
[B------:R-:W-:-:S15] MOV R3, 0xffffffff ;
[B------:R-:W-:-:S15] WARPSYNC.COLLECTIVE R3, `(.L_done) ;
[B------:R-:W1:-:S15] SHFL.BFLY PT, R4, R5, 0x10, 0x1f ;
[B------:R-:W-:-:S15] ENDCOLLECTIVE ;
.L_done:
[B------:R-:W-:-:S15] BRA `(.L_back) ;
";

fn program(code: &[u8]) -> Program {
    Program::new("lanes", code, Target::Sm90a, |_| None).expect("the code decodes")
}

#[test]
fn every_mutant_of_where_lanes_meet_is_reported() {
    let assembly = assemble(LISTING, Target::Sm90a).expect("the listing is legal");
    let words = assembly.functions[0].words.iter();
    let code: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    let original = program(&code);
    let found = judge_program(&original).expect("every timing is known");
    assert_eq!(found, [], "the code as it is");
    let all = mutations(&original);
    assert_eq!(all.len(), 19);
    for (index, mutation) in all {
        let mut changed = code.clone();
        let words = (mutation.words(&original, index, Target::Sm90a)).expect("a legal instruction");
        for (index, word) in words {
            changed[index * 16..][..16].copy_from_slice(&word.to_le_bytes());
        }
        let found = judge_program(&program(&changed)).expect("every timing is known");
        assert_ne!(found, [], "{:#x} {mutation}", index * 16);
    }
}
