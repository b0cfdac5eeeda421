! SPDX-License-Identifier: Apache-2.0
! As values.c: procedures that print their own arguments, locals and results, in the form in which scry shows them.
module written
  implicit none
  type point
    real(8) :: x, y
    integer :: id
    character(len=4) :: tag
  end type
  type box
    type(point) :: low
    integer :: counts(0:1)
  end type
contains
  function w(number) result(text)
    integer, intent(in) :: number
    character(len=:), allocatable :: text
    character(len=20) :: room
    write (room, '(i0)') number
    text = trim(room)
  end function
  function list(numbers) result(text)
    integer, intent(in) :: numbers(:)
    character(len=:), allocatable :: text
    integer :: i
    text = '{' // w(numbers(1))
    do i = 2, size(numbers)
      text = text // ', ' // w(numbers(i))
    end do
    text = text // '}'
  end function
  function of_point(p) result(text)
    type(point), intent(in) :: p
    character(len=:), allocatable :: text
    text = '{x = ' // w(int(p%x)) // ', y = ' // w(int(p%y)) // ', id = ' // w(p%id) // ', tag = "' // p%tag // '"}'
  end function
  function of_complex(c) result(text)
    complex, intent(in) :: c
    character(len=:), allocatable :: text
    text = w(int(real(c))) // merge(' + ', ' - ', aimag(c) > 0) // w(abs(int(aimag(c)))) // 'i'
  end function
  function of_logical(l) result(text)
    logical, intent(in) :: l
    character(len=:), allocatable :: text
    text = trim(merge('true ', 'false', l))
  end function
end module

module traced
  use written
  implicit none
contains
  function norm(p) result(r)
    type(point), intent(in) :: p
    integer :: r
    print '(a)', '> norm(p = ' // of_point(p) // ')'
    r = int(sqrt(p%x**2 + p%y**2))
    print '(a)', '< norm: r = ' // w(r) // ' = ' // w(r)
  end function
  subroutine boxes(b)
    type(box), intent(in) :: b
    print '(a)', '> boxes(b = {low = ' // of_point(b%low) // ', counts = ' // list(b%counts) // '})'
  end subroutine
  logical function flag(on, c)
    logical, intent(in) :: on
    complex, intent(in) :: c
    print '(a)', '> flag(on = ' // of_logical(on) // ', c = ' // of_complex(c) // ')'
    flag = on .and. aimag(c) > 0
    print '(a)', '< flag: = ' // of_logical(flag)
  end function
  complex function twice_complex(c)
    complex, intent(in) :: c
    print '(a)', '> twice_complex(c = ' // of_complex(c) // ')'
    twice_complex = 2 * c
    print '(a)', '< twice_complex: = ' // of_complex(twice_complex)
  end function
  integer function sizes(a, b, c, d, x)
    integer(1), intent(in) :: a
    integer(2), intent(in) :: b
    integer(8), intent(in) :: c
    real(4), intent(in) :: d
    real(8), intent(in) :: x
    print '(a)', '> sizes(a = ' // w(int(a)) // ', b = ' // w(int(b)) // ', c = ' // w(int(c)) // ', d = ' // &
      w(int(d)) // ', x = ' // w(int(x)) // ')'
    sizes = int(a) + int(b)
    print '(a)', '< sizes: = ' // w(sizes)
  end function
  subroutine many(a, b, c, d, e, f, g, h)
    integer, intent(in) :: a, b, c, d, e, f, g, h
    print '(a)', '> many(a = ' // w(a) // ', b = ' // w(b) // ', c = ' // w(c) // ', d = ' // w(d) // ', e = ' // &
      w(e) // ', f = ' // w(f) // ', g = ' // w(g) // ', h = ' // w(h) // ')'
  end subroutine
  subroutine texts(a, b, n, c)
    character(len=5), intent(in) :: a
    character(len=*), intent(in) :: b, c
    integer, intent(in) :: n
    print '(a)', '> texts(a = "' // a // '", b = "' // b // '", n = ' // w(n) // ', c = "' // c // '")'
  end subroutine
  subroutine explicit(k, low, grid, names)
    integer, intent(in) :: k(3), low(-1:1), grid(2, 3)
    character(len=2), intent(in) :: names(2)
    print '(a)', '> explicit(k = ' // list(k) // ', low = ' // list(low) // ', grid = {' // list(grid(:, 1)) // ', ' // &
      list(grid(:, 2)) // ', ' // list(grid(:, 3)) // '}, names = {"' // names(1) // '", "' // names(2) // '"})'
  end subroutine
  subroutine bounds(v, n, m, rest)
    integer, intent(in) :: n, m, v(n, m), rest(*)
    print '(a)', '> bounds(v = {' // list(v(:, 1)) // ', ' // list(v(:, 2)) // '}, n = ' // w(n) // ', m = ' // w(m) // &
      ', rest = <of unknown size>)'
    if (rest(1) < 0) print *, 'no'
  end subroutine
  subroutine more_bounds(k, c, n, t, s)
    integer(8), intent(in) :: k
    integer, intent(in) :: n, c(0:n), t(n:2*n - 1, k), s(-1:1, *)
    integer :: own(n)
    print '(a)', '> more_bounds(k = ' // w(int(k)) // ', c = ' // list(c) // ', n = ' // w(n) // ', t = {' // list(t(:, 1)) // &
      ', ' // list(t(:, 2)) // ', ' // list(t(:, 3)) // '}, s = <of unknown size>)'
    own = n
    if (own(1) + s(0, 1) < 0) print *, 'no'
  end subroutine
  subroutine empty(n, a)
    integer, intent(in) :: n, a(n)
    print '(a)', '> empty(n = ' // w(n) // ', a = {})'
    if (size(a) > 0) print *, 'no'
  end subroutine
  subroutine assumed(a, b, n)
    integer, intent(in) :: a(:), b(0:, :), n
    print '(a)', '> assumed(a = ' // list(a) // ', b = {' // list(b(:, 1)) // ', ' // list(b(:, 2)) // '}, n = ' // &
      w(n) // ')'
  end subroutine
  subroutine allocated_ones(a, p)
    integer, allocatable, intent(in) :: a(:)
    integer, pointer, intent(in) :: p(:)
    print '(a)', '> allocated_ones(a = ' // list(a) // ', p = ' // list(p) // ')'
  end subroutine
  recursive integer function fact(n) result(f)
    integer, value :: n
    print '(a)', '> fact(n = ' // w(n) // ')'
    f = 1
    if (n > 1) f = n * fact(n - 1)
    print '(a)', '< fact: f = ' // w(f) // ' = ' // w(f)
  end function
  recursive integer function by_address(n) result(r)
    integer, intent(in) :: n
    print '(a)', '> by_address(n = ' // w(n) // ')'
    r = 1
    if (n > 1) r = n * by_address(n - 1)
    print '(a)', '< by_address: r = ' // w(r) // ' = ' // w(r)
  end function
  subroutine outer(n)
    integer, intent(in) :: n
    integer :: twice
    print '(a)', '> outer(n = ' // w(n) // ')'
    twice = 2 * n
    call inner(n + 1)
    print '(a)', '< outer: twice = ' // w(twice)
  contains
    subroutine inner(m)
      integer, intent(in) :: m
      print '(a)', '> inner(m = ' // w(m) // ')'
      if (m > twice) print *, 'no'
    end subroutine
  end subroutine
  function named(n) result(text)
    integer, intent(in) :: n
    character(len=6) :: text
    print '(a)', '> named(n = ' // w(n) // ')'
    write (text, '(i6)') n
  end function
  function numbered(n) result(numbers)
    integer, intent(in) :: n
    integer :: numbers(n)
    print '(a)', '> numbered(n = ' // w(n) // ')'
    numbers = n
  end function
  function made(id) result(p)
    integer, intent(in) :: id
    type(point) :: p
    print '(a)', '> made(id = ' // w(id) // ')'
    p = point(3, 4, id, 'made')
  end function
end module

subroutine alone(n, k)
  use written
  implicit none
  integer :: n, k(2), before(2:3)
  character(len=7) :: name
  complex :: z
  print '(a)', '> alone(n = ' // w(n) // ', k = ' // list(k) // ')'
  n = n + 1
  name = 'seven'
  before = k
  z = cmplx(n, -n)
  print '(a)', '< alone: name = "' // name // '", before = ' // list(before) // ', z = ' // of_complex(z)
end subroutine

program values
  use traced
  implicit none
  integer, target :: k(3) = [10, 20, 30]
  integer :: low(-1:1) = [7, 8, 9], grid(2, 3) = reshape([1, 2, 3, 4, 5, 6], [2, 3]), n
  integer, allocatable :: a(:)
  integer, pointer :: p(:)
  type(point) :: q
  complex :: z
  n = norm(point(3, 4, 7, 'tags'))
  call boxes(box(point(1, 2, 3, 'a b '), [5, 6]))
  if (flag(.true., (1.0, 2.0)) .and. flag(.false., (1.0, -2.0))) n = 0
  z = twice_complex((3.0, -4.0))
  n = sizes(1_1, -2_2, 123456789_8, 4.0, 5d0)
  call many(1, 2, 3, 4, 5, 6, 7, 8)
  call texts('alpha', 'beta gamma', n, 'delta')
  call texts('omega', 'b', n, k_text())
  call explicit(k, low, grid, ['ab', 'cd'])
  call bounds(grid, 2, 2, k)
  call more_bounds(3_8, k, 2, grid, low)
  call empty(-1, k)
  call assumed(k(1:3:2), grid(:, 2:3), 4)
  call assumed(k(3:1:-1), grid(2:1:-1, 1:3:2), 5)
  allocate (a(-1:0))
  a = [4, 5]
  p => k(2:3)
  call allocated_ones(a, p)
  n = fact(3) + by_address(3)
  call outer(5)
  if (named(42) == '') n = 1
  k = numbered(3)
  q = made(int(real(z)))
  call boxes(box(q, [1, 2]))
  n = 1
  call alone(n, k)
  call alone(n, k)
contains
  function k_text() result(text)
    character(len=2) :: text
    text = 'kt'
  end function
end program
