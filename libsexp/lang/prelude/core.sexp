;; What the evaluator itself builds on: loops over lists as functions.

(defun map (f list &rest more)
  "[(f a b ...) ...] over one list, or over several up to the end of the shortest."
  (if (= (length more) 0)
      (for (item list) (f item))
      (for (items (apply zip (append [list] more))) (apply f items))))

(defun filter (f list)
  "The items for which (f item) is true, in order."
  (apply append (for (item list) (if (f item) [item] []))))

(defun fold (f init list)
  "(f ... (f (f init first) second) ... last), as a function; (fold ...) itself is a special form."
  (fold f init list))
