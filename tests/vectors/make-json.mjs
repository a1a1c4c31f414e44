// Prints what JSON.stringify writes for values that tempt an encoder to write something else.
const everyControl = Array.from({ length: 32 }, (_, code) => String.fromCharCode(code)).join("");
const values = [
  "", "plain", 'quote " and \\ backslash', "a/b", everyControl, "\u007f\u0080\u009f", "\u00e9 e\u0301", "日本", "🎲",
  "\u2028\u2029", "\ufeff", "\uffff", "<script>&'</script>", "\ud83c\udfb2\u200d", "1e5", "null",
  0, 1, -1, 100, 2592000000, 9007199254740991, -9007199254740991,
  true, false, null,
  [], {}, [[]], [{}], { a: {} }, [1, "a", null, true],
  { player_id: "p", count: 5, nested: { z: 1, a: [2, { b: "日" }] }, empty: "" },
  { 'we"ird\n': 1, "": 2, "日本": 3, "\u0000": 4 },
];
const pairs = values.map((value) => ({ value, text: JSON.stringify(value) }));
process.stdout.write("[\n" + pairs.map((pair) => JSON.stringify(pair)).join(",\n") + "\n]\n");
