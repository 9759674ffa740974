(def a 12ab)
(def b 9223372036854775808)
(def c 1e999)
(def d 0xfg)
