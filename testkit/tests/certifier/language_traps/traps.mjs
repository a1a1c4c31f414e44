// What docs/tutorials/another-language.md says of JavaScript.
console.log(JSON.parse("9007199254740993"));
console.log(JSON.parse('{"a":1,"a":2}').a);
console.log("constructor" in JSON.parse("{}"));
console.log(escape(new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61, 0xff]))));
console.log("\u{1f3b0}".length);
