-- What is left of each lock's lease, in milliseconds: the exporter's own documentation names scripts as the way to what its flags cannot
-- show. Returns name, value, name, value, ...
local shown, cursor = {}, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', 'bench:*:lock', 'COUNT', 10000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    shown[#shown + 1] = key
    shown[#shown + 1] = tostring(redis.call('PTTL', key))
  end
until cursor == '0'
return shown
