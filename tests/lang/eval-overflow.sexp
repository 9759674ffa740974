(print (* 9223372036854775807 2))
(print (- -9223372036854775808))
(print (pow 10 19))
(print (floor 1e300))
