//! Walk aliases, typed keys, and a guidance step that packs two streams of each request into one sequence.

use graph_core::{KeyInfo, Options, RequestId};

use crate::toy::{Built, COND, Toy, UNCOND, build, sum_of, value};

fn two_requests() -> Built {
    let mut built = build(Toy::default());
    (1..=2).for_each(|r| built.node().ingest(RequestId(r), &Options::default()).unwrap());
    built
}

#[test]
fn an_alias_replays_the_captures_of_its_walk() {
    let mut built = two_requests();
    let before = built.engine.stats().len();
    let a = built.step("decode", None, 0, &[(1, &[3]), (2, &[4])]).unwrap();
    let b = built.step("speak", None, 0, &[(1, &[3]), (2, &[4])]).unwrap();
    assert!(a.replayed && b.replayed);
    assert_eq!(b.sums, [sum_of(&[3, 3]), sum_of(&[4, 4])]);
    let whole = built.node().whole();
    let bucket = |walk| {
        let walk = whole.walk(walk, None).unwrap();
        whole.select_bucket(walk, 2, 2).unwrap()
    };
    assert_eq!(bucket("speak"), bucket("decode"), "the capture's own bucket, not another one");
    assert_eq!(whole.key(bucket("speak")).unwrap().walk, "decode");
    assert_eq!(built.engine.stats().len(), before);
}

#[test]
fn a_key_chooses_between_two_captures_of_a_walk() {
    let mut built = two_requests();
    let loud = KeyInfo::Str("loud".into());
    let rows: [(u64, &[i32]); 2] = [(1, &[3]), (2, &[4])];
    let plain = built.step("decode", None, 0, &rows).unwrap();
    let louder = built.step("decode", Some(&loud), 0, &rows).unwrap();
    assert!(plain.replayed && louder.replayed);
    assert_eq!(plain.sums, [3.0, 4.0]);
    assert_eq!(louder.sums, [sum_of(&[3, 3]) * 100.0, sum_of(&[4, 4]) * 100.0]);
    // Its capture is for two requests: three run eagerly, through the same forward.
    built.node().ingest(RequestId(3), &Options::default()).unwrap();
    let three = built.step("decode", Some(&loud), 0, &[(1, &[0]), (2, &[0]), (3, &[7])]).unwrap();
    assert!(!three.replayed);
    assert_eq!(three.sums[2], 700.0);
    let other = built.step("decode", Some(&KeyInfo::Bool(true)), 0, &rows).unwrap();
    assert!(
        !other.replayed && other.sums[0] < 100.0,
        "an unknown key has no capture; the walk's forward runs"
    );
}

#[test]
fn guidance_packs_two_streams_of_each_request() {
    let (mut captured, mut eager) = (two_requests(), two_requests());
    eager.node().set_eager(true);
    let mut streams = [[vec![], vec![]], [vec![], vec![]]];
    for i in 0..10 {
        // Two tokens of each request: the first continues the one stream, the second the other.
        let tokens = [[i + 2, 1], [3 * i, i]];
        let rows: [(u64, &[i32]); 2] = [(1, &tokens[0]), (2, &tokens[1])];
        let a = captured.step("guided", None, i as usize, &rows).unwrap();
        let b = eager.step("guided", None, i as usize, &rows).unwrap();
        assert!(a.replayed && !b.replayed);
        for (streams, tokens) in streams.iter_mut().zip(tokens) {
            streams.iter_mut().zip(tokens).for_each(|(stream, token)| stream.push(token));
        }
        let want = streams.each_ref().map(|[cond, uncond]| sum_of(cond) - sum_of(uncond));
        assert_eq!((&a.sums, &a.tokens), (&b.sums, &b.tokens));
        assert_eq!(a.sums, want);
    }
    for label in [COND, UNCOND] {
        assert_eq!(captured.kv().stream_len(RequestId(2), label), 10);
    }
    let whole = captured.node().whole();
    let walk = whole.walk("guided", None).unwrap();
    let bucket = whole.select_bucket(walk, 2, 4).unwrap();
    assert_eq!(whole.key(bucket).unwrap().tokens, 4, "total_tokens_multiplier: two tokens per request");
    // One request in the bucket of two: its two padding tokens go to the padding page.
    let alone = captured.step("guided", None, 0, &[(1, &[5, 6])]).unwrap();
    assert!(alone.replayed);
    let [cond, uncond] = &streams[0];
    let want = sum_of(cond) + value(5, 10) - sum_of(uncond) - value(6, 10);
    assert_eq!(alone.sums, [want]);
    captured.kv().assert_consistent();
}
