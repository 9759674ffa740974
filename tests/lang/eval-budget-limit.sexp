;; evaluate: --limit 1000
(print (length (range 900)))
(print (fold + 0 (range 500)))
