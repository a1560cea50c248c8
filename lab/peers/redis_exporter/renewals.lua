-- When each lock was last renewed, in milliseconds of the server's clock, for a lease of 30 s.
local shown, cursor = {}, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', 'bench:*:lock', 'COUNT', 10000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    shown[#shown + 1] = key
    shown[#shown + 1] = tostring(redis.call('PEXPIRETIME', key) - 30000)
  end
until cursor == '0'
return shown
