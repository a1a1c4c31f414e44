<?php // What docs/tutorials/another-language.md says of PHP.
$lines = [
    json_decode('9007199254740993.0') === 9007199254740992.0,
    json_decode('{"a":1,"a":2}')->a === 2,
    json_decode('{}', true) === json_decode('[]', true),
    array_keys(['7' => 1]) === [7],
    '1e3' == '1000',
    in_array(true, ['BET']),
    is_float(PHP_INT_MAX + 1),
];
foreach ($lines as $isSo) {
    echo var_export($isSo, true), "\n";
}
