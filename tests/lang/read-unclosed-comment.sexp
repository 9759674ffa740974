(def a 1)
#| a comment #| in a comment |#
(def b 2)
