;; Layers as functions of their input and parameters; only the draws of dropout depend on anything else.

(defun layer-norm (x weight bias &key (eps 1e-5))
  "Zero mean and unit variance along the last axis, then times weight plus bias."
  (let ((y (in-f32 x
             (lambda (x)
               (let ((d (- x (mean x :axis -1 :keep true))))
                 (* d (rsqrt (+ (mean (* d d) :axis -1 :keep true) eps))))))))
    (+ (* y weight) bias)))

(defun rms-norm (x weight &key (eps 1e-6))
  "x over the root of its mean square along the last axis, times weight."
  (let ((y (in-f32 x (lambda (x) (* x (rsqrt (+ (mean (* x x) :axis -1 :keep true) eps)))))))
    (* y weight)))

(defun batch-norm (x weight bias &key (eps 1e-5))
  "Zero mean and unit variance of each channel (the last axis) over all other axes of the batch, then times weight plus
bias. The statistics are the batch's own, in evaluations too: there is no running average."
  (let ((axes (range (- (rank x) 1)))
        (y (in-f32 x
             (lambda (x)
               (let ((d (- x (mean x :axis axes :keep true))))
                 (* d (rsqrt (+ (mean (* d d) :axis axes :keep true) eps))))))))
    (+ (* y weight) bias)))

(defun plus-bias (name y bias)
  (cond ((= (length bias) 0) y)
        ((= (length bias) 1) (+ y (first bias)))
        (else (error name ": one bias, not " (length bias)))))

(defun linear (x weight &rest bias)
  "x [... in] by weight [out in], plus bias [out] where it is given: [... out]."
  (assert (and (= (rank weight) 2) (= (dim x -1) (dim weight 1)))
          "linear: x is [... in] and weight [out in], found " (shape-of x) " and " (shape-of weight))
  (plus-bias "linear" (matmul x (transpose weight [1 0])) bias))

(defun embedding (ids table)
  "The rows of table [n width] at ids [...]: [... width]."
  (gather table (if (= (dtype-of ids) u8) (cast ids i32) ids)))

(defun same-padding (weight)
  (let ((k (dim weight 1)))
    (assert (and (= k (dim weight 2)) (= (mod k 2) 1))
            "conv: :padding \"same\" needs a square kernel of odd size, not " [k (dim weight 2)])
    (div k 2)))

(defun conv (x weight &key (stride 1) (padding 0) &rest bias)
  "x [n h w c] convolved with weight [out kh kw c], plus bias [out] where it is given. :padding \"same\" keeps h and w at
stride 1."
  (let ((padding (if (= padding "same") (same-padding weight) padding)))
    (plus-bias "conv" (conv2d x weight :stride stride :padding padding) bias)))

(defun height-and-width (v)
  "A size for height and width: [h w], or one for both."
  (if (list? v) v [v v]))

(defun tiled (x kh kw)
  "x [n h w c] in tiles, [n h/kh kh w/kw kw c]; what is left over at the ends is cut off."
  (let ((oh (div (dim x 1) kh)) (ow (div (dim x 2) kw))
        (x (slice (slice x 1 0 (* oh kh)) 2 0 (* ow kw))))
    (reshape x [(dim x 0) oh kh ow kw (dim x 3)])))

(defun pool-windows (x reduce window stride padding value)
  "(reduce windows axes) over the windows of the height and the width of x [n h w c]. Tiles are moved by a reshape alone."
  (let ((w (height-and-width window)) (s (height-and-width stride)) (p (height-and-width padding))
        (edges [0 (nth p 0) (nth p 1) 0])
        (x (if (= p [0 0]) x (pad x edges edges :value value)))
        (kh (nth w 0)) (kw (nth w 1)))
    (assert (and (<= 1 kh (dim x 1)) (<= 1 kw (dim x 2)))
            "a pooling window " w " does not fit into " [(dim x 1) (dim x 2)])
    (if (= w s)
        (reduce (tiled x kh kw) [2 4])
        (reduce (unfold (unfold x :axis 1 :size kh :step (nth s 0)) :axis 2 :size kw :step (nth s 1)) [-2 -1]))))

(defun max-pool (x &key (window 2) (stride window) (padding 0))
  "The largest of each window of x [n h w c]. Elements that are equally large share the gradient."
  (pool-windows x (lambda (u axes) (reduce-max u :axis axes)) window stride padding -inf))

(defun avg-pool (x &key (window 2) (stride window) (padding 0))
  "The mean of each window of x [n h w c]; padding counts as zeros."
  (/ (pool-windows x (lambda (u axes) (sum u :axis axes)) window stride padding 0)
     (fold * 1 (height-and-width window))))

(defun bernoulli (shape &key (p 0.5) (salt []) (dtype f32))
  "1 with probability p (a number, or a tensor that broadcasts to shape), else 0."
  (cast (< (uniform shape :salt salt) p) dtype))

(defun dropout (x &key (p 0.5) (salt [:step :microbatch]))
  "In training each element is 0 with probability p, else x / (1 - p); in evaluations x. Drawn anew each microbatch."
  (assert (and (>= p 0) (< p 1)) "dropout: :p is at least 0 and below 1, not " p)
  (if (and training? (> p 0))
      (where (< (uniform (shape-of x) :salt salt) p) 0 (/ x (- 1 p)))
      x))

;; ---- attention ----

(defun split-heads (x n)
  "[b t n*d] to [b n t d]."
  (assert (and (= (rank x) 3) (= (mod (dim x 2) n) 0)) "split-heads: x is [b t n*d], n = " n ", found " (shape-of x))
  (transpose (reshape x [(dim x 0) (dim x 1) n (div (dim x 2) n)]) [0 2 1 3]))

(defun merge-heads (x)
  "[b n t d] to [b t n*d]."
  (reshape (transpose x [0 2 1 3]) [(dim x 0) (dim x 2) (* (dim x 1) (dim x 3))]))

(defun repeat-heads (x n)
  "[b h t d] to [b n t d], each head n / h times in a row."
  (let ((b (dim x 0)) (h (dim x 1)) (t (dim x 2)) (d (dim x 3)))
    (assert (= (mod n h) 0) "attention: " h " heads of keys do not serve " n " of queries in equal parts")
    (if (= h n)
        x
        (reshape (broadcast-to (reshape x [b h 1 t d]) [b h (div n h) t d]) [b n t d]))))

(defun causal-mask (n m)
  "bool [n m]: position i sees positions up to i."
  (>= (iota [n m] :axis 0) (iota [n m] :axis 1)))

(defun masked-softmax (scores allowed)
  "The softmax along the last axis of what is allowed; a row in which nothing is allowed is 0."
  (let ((x (where allowed (cast scores f32) -inf))
        (peak (peak-along x -1))
        (e (exp (- x (where (= peak -inf) 0 peak))))
        (s (sum e :axis -1 :keep true)))
    (cast (/ e (where (= s 0) 1 s)) (dtype-of scores))))

(defun attention (q k v &key (causal false) (mask []) (scale (/ 1 (sqrt (dim q -1)))))
  "Softmax attention of q [b h t d] over k and v [b h s d]; with fewer heads in k and v each serves several of q.
:mask is bool (true: seen) or f32 (added to the scores), and broadcasts to [b h t s]."
  (assert (and (= (rank q) 4) (= (rank k) 4) (= (rank v) 4))
          "attention: q is [b h t d], k and v [b h s d], found " (shape-of q) ", " (shape-of k) " and " (shape-of v))
  (let ((h (dim q 1))
        (scores (einsum "bhqd,bhkd->bhqk" (* q scale) (repeat-heads k h)))
        (masked (tensor? mask))
        (hides (and masked (= (dtype-of mask) bool)))
        (scores (if (and masked (not hides)) (+ scores mask) scores))
        (seen (causal-mask (dim q 2) (dim k 2)))
        (weights (cond ((and causal hides) (masked-softmax scores (and seen mask)))
                       (hides (masked-softmax scores mask))
                       (causal (softmax (where seen scores -inf)))
                       (else (softmax scores)))))
    (einsum "bhqk,bhkd->bhqd" weights (repeat-heads v h))))

(defun rotary (x &key (base 10000) (positions (iota [(dim x -2)])) (interleaved false))
  "Rotary position embedding of x [... t d]: pairs of elements turn by position * base^(-2i/d). A pair is i and i + d/2,
or 2i and 2i + 1 with :interleaved true. :positions is i32 [t] or broadcasts to the axes before d."
  (let ((d (dim x -1))
        (half (div d 2))
        (turn (exp (* (cast (iota [half]) f32) (/ (* -2 (log base)) d))))
        (angle (* (reshape (cast positions f32) (append (shape-of positions) [1])) turn))
        (c (cast (cos angle) (dtype-of x)))
        (s (cast (sin angle) (dtype-of x))))
    (assert (= (mod d 2) 0) "rotary: the last axis has an even size, not " d)
    (if interleaved
        (let ((a (slice x -1 0 d :step 2)) (b (slice x -1 1 d :step 2)))
          (reshape (stack [(- (* a c) (* b s)) (+ (* b c) (* a s))] :axis -1) (shape-of x)))
        (let ((a (slice x -1 0 half)) (b (slice x -1 half d)))
          (concat [(- (* a c) (* b s)) (+ (* b c) (* a s))] :axis -1)))))
