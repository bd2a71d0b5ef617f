use super::*;
use crate::options_text::unescape;
use crate::{option_enum, option_set};

option_enum! {
    /// Colours.
    enum Color {
        /// Red.
        #[default]
        Red = 0 => "kRed",
        /// Blue.
        Blue = 4 => "kBlue",
    }
    also { "kAzure" => Blue }
}

option_set! {
    /// Inner.
    struct Inner("Inner") {
        /// Level.
        level: i32 = 3 => mutable;
        /// Newer.
        checksum: bool = false => new;
    }
}

option_set! {
    /// Outer.
    struct Outer("Outer") {
        /// Size.
        size: u64 = 4096 => mutable;
        /// Small.
        small: u8 = 0;
        /// Ratio.
        ratio: f64 = 0.25;
        /// Text.
        dir as "DIR": String = String::new();
        /// Colour.
        color: Color = Color::Blue;
        /// Colours.
        colors: Vec<Color> = Vec::new();
        /// Inner.
        inner: Inner = Inner::default(), with Nested => mutable;
        /// Object.
        object: UnsupportedObject = UnsupportedObject(None) => inert;
        /// Rest.
        kept: KeptOptions = KeptOptions::default(), with Kept;
    }
    aliases { "length" => "size" }
    retired { "old_thing" }
}

fn parse(text: &str) -> Outer {
    Outer::from_text(text, &ConfigOptions::default()).expect("valid text")
}

fn refusal(text: &str) -> String {
    Outer::from_text(text, &ConfigOptions::default()).expect_err("invalid text").message().to_owned()
}

#[test]
fn numbers_follow_the_c_library() {
    for (text, value) in [("1kb", 1024), ("1x", 1), ("1.5m", 1), ("0x10", 0), (" 7", 7), ("2t", 2 << 40), ("{42}", 42)]
    {
        assert_eq!(parse(&format!("size={text}")).size, value, "{text}");
    }
    assert_eq!(parse("size=-1").size, u64::MAX);
    assert_eq!(parse("ratio=1.5x").ratio, 1.5);
    assert_eq!(parse("ratio=1e1").ratio, 10.0);
    assert_eq!(parse("ratio=.5").ratio, 0.5);
    assert!(parse("ratio=nan").ratio.is_nan());
    assert_eq!(parse("inner.level=3t").inner.level, 3);
    assert_eq!(parse("inner.level=-2k").inner.level, -2048);
    assert_eq!(refusal("size=x"), "Error parsing size:stoull");
    assert_eq!(refusal("size=99999999999999999999"), "Error parsing size:stoull");
    assert_eq!(refusal("inner={level=4294967296}"), "Error parsing level:stoi");
    assert_eq!(refusal("ratio=e"), "Error parsing ratio:stod");
    assert_eq!(refusal("small=256"), "Error parsing small:256");
    assert_eq!(refusal("color=kGreen"), "No mapping for enum : color");
}

#[test]
fn names_are_resolved_and_refused() {
    assert_eq!(parse("length=5").size, 5);
    assert_eq!(parse("color=kAzure").color, Color::Blue);
    assert_eq!(parse("colors=kRed:kBlue").colors, [Color::Red, Color::Blue]);
    assert_eq!(refusal("nonsense=1"), "Extra option not recognized: nonsense");
    assert_eq!(refusal("inner.nonsense=1"), "Unrecognized option: inner.nonsense");
    assert_eq!(refusal("inner={nonsense=1}"), "Unrecognized option: inner.nonsense");
    let ignoring = ConfigOptions { ignore_unknown_options: true, ..ConfigOptions::default() };
    let outer = Outer::from_text("nonsense=1;inner={checksum=true;later=2;};size=x;ratio=2", &ignoring).unwrap();
    assert!(outer.inner.checksum);
    assert_eq!((outer.size, outer.ratio), (4096, 2.0));
}

#[test]
fn texts_of_unsupported_objects_come_back_or_are_refused() {
    for (text, printed) in [
        ("nullptr", "nullptr"),
        ("Thing", "Thing"),
        ("{Thing}", "Thing"),
        ("{{id=Thing;size=1}}", "{id=Thing;size=1}"),
        ("{a}:{b}", "{{a}:{b}}"),
        ("{a}b", "{{a}b}"),
        ("{id=A;b=#1\n2:3}", "{id=A;b=\\#1\\n2:3}"),
    ] {
        let value = UnsupportedObject::parse_value("object", text, &ConfigOptions::default()).unwrap();
        assert_eq!(value.print_value(Dialect::RocksDb11), printed);
        for list in [vec![value.clone()], vec![value.clone(), UnsupportedObject(Some("x:y".into())), value]] {
            let text = list.print_value(Dialect::RocksDb11);
            let again = Vec::<UnsupportedObject>::parse_value("objects", &unescape(&text), &ConfigOptions::default());
            assert_eq!(again.unwrap(), list, "{text}");
        }
    }
    for text in ["a=1}", "{a", "}{", "a{b}}"] {
        let error = UnsupportedObject::parse_value("object", text, &ConfigOptions::default()).unwrap_err();
        assert_eq!(error.message(), "Mismatched curly braces in object", "{text}");
    }
    let ignoring =
        ConfigOptions { ignore_unknown_options: true, ignore_unsupported_options: true, ..Default::default() };
    let mut outer = Outer::default();
    outer.set_text("old_thing", "a}", &ignoring).unwrap();
    outer.set_text("object", "a}", &ignoring).unwrap();
    assert!(outer.ineffective().is_empty());
    outer.set_text("old_thing", "a\nb", &ignoring).unwrap();
    assert_eq!(outer.ineffective(), [("old_thing".to_owned(), "a\\nb".to_owned())]);
}

#[test]
fn a_failing_map_changes_nothing() {
    let mut outer = Outer::default();
    outer.apply_string("size=1;ratio=x", &ConfigOptions::default()).unwrap_err();
    assert_eq!(outer.size, 4096);
}

#[test]
fn only_mutable_options_change_while_open() {
    let config = ConfigOptions { mutable_options_only: true, ..ConfigOptions::default() };
    let mut outer = parse("object=Thing");
    outer.set_text("inner.level", "9", &config).unwrap();
    outer.set_text("inner", "{checksum=true}", &config).unwrap();
    assert_eq!((outer.inner.level, outer.inner.checksum), (9, true));
    let error = outer.set_text("ratio", "1", &config).unwrap_err();
    assert_eq!(error.message(), "Option not changeable: ratio");
    outer.set_text("object", "Thing", &config).unwrap();
    outer.set_text("object", "nullptr", &config).unwrap_err();
}

#[test]
fn prints_each_dialect() {
    let mut outer = parse("old_thing=NORMAL;DIR=/a\\:b;inner.checksum=true");
    assert_eq!(outer.dir, "/a:b");
    assert_eq!(outer.get_text("inner").as_deref(), Some("{level=3;checksum=true;}"));
    let text =
        "size=4096;small=0;ratio=0.250000;DIR=/a\\:b;color=kBlue;inner={level=3;};object=nullptr;old_thing=NORMAL;";
    assert_eq!(outer.to_text(Dialect::RocksDb7, ";"), text);
    assert!(outer.to_text(Dialect::Portable, ";").contains("inner={level=3;checksum=true;}"));
    assert_eq!(outer.ineffective(), [("old_thing".to_owned(), "NORMAL".to_owned())]);
    assert_eq!(parse("object=Thing").ineffective(), [("object".to_owned(), "Thing".to_owned())]);
    outer.inner.checksum = false;
    assert!(outer.to_text(Dialect::Portable, ";").contains("inner={level=3;}"));
    assert!(format!("{outer:?}").starts_with("Outer { size: 4096,"));
}

#[test]
fn the_table_tells_everything() {
    let names: Vec<_> = Outer::FIELDS.iter().map(|field| (field.descriptor.name, field.descriptor.kind)).collect();
    assert_eq!(names.first(), Some(&("size", ValueKind::Uint)));
    let color = &Outer::find("color").unwrap().descriptor;
    assert_eq!((color.choices)(), ["kRed", "kBlue"]);
    assert_eq!(color.default, "Color::Blue");
    assert_eq!(color.doc.trim(), "Colour.");
    assert!(Outer::find("size").unwrap().descriptor.flags.mutable);
    assert_eq!(Color::from_number(4), Some(Color::Blue));
    assert_eq!(Color::ALL.len(), 2);
}

#[test]
fn objects_are_taken_apart() {
    let plain = ObjectText::parse("bloomfilter:10").unwrap();
    assert_eq!(plain.id.as_deref(), Some("bloomfilter:10"));
    let full = ObjectText::parse("{id=ribbonfilter:10:0;bloom_before_level=0;}").unwrap();
    assert_eq!(full.id.as_deref(), Some("ribbonfilter:10:0"));
    assert_eq!(full.parameters, [("bloom_before_level".to_owned(), "0".to_owned())]);
    assert_eq!(ObjectText::parse("{delimiter=;}").unwrap().id, None);
    assert_eq!(ObjectText::parse("nullptr"), None);
}
