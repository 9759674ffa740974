(print "tab\there" "quote\"d" "caf\u{e9}" "two
lines")
(print (str) (str "a" 1 2.5 true 'sym :key [1 "b"]) (path "a" 'b 3 "c"))
(print (for (glob ["*" "a*" "?b" "[a-c]b" "b" "a/*" "*/w"]) (matches glob "ab")) (matches "a/*" "a/b/c") (matches "*w" "x/w"))
(print "one" 2 [3 "four"])
(defrun r :seed 1 :steps 1 :loss (sum (zeros [2])))
